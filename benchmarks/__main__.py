"""All benchmarks: python -m benchmarks."""

from benchmarks import accuracy, coverage, engines, interactions, memory, overhead, shapley

for part in (overhead, accuracy, memory, engines, interactions, shapley, coverage):
    print(f"\n{(part.__doc__ or '').strip()}\n", flush=True)
    part.main()
