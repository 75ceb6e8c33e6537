"""All benchmarks: python -m benchmarks."""

from benchmarks import accuracy, coverage, engines, memory, overhead, shapley

for part in (overhead, accuracy, memory, engines, shapley, coverage):
    print(f"\n{(part.__doc__ or '').strip()}\n", flush=True)
    part.main()
