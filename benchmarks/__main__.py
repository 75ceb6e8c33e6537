"""All benchmarks: python -m benchmarks."""

from benchmarks import accuracy, engines, memory, overhead

for part in (overhead, accuracy, memory, engines):
    print(f"\n{(part.__doc__ or '').strip()}\n", flush=True)
    part.main()
