"""All benchmarks: python -m benchmarks."""

from benchmarks import accuracy, engines, memory, overhead, shapley

for part in (overhead, accuracy, memory, engines, shapley):
    print(f"\n{(part.__doc__ or '').strip()}\n", flush=True)
    part.main()
