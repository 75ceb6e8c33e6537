"""All benchmarks: python -m benchmarks."""

from benchmarks import accuracy, memory, overhead

for part in (overhead, accuracy, memory):
    print(f"\n{(part.__doc__ or '').strip()}\n")
    part.main()
