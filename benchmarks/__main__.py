"""All benchmarks: python -m benchmarks."""

from benchmarks import (
    accuracy,
    conditional,
    coverage,
    engines,
    extrapolation,
    interactions,
    memory,
    overhead,
    page,
    plans,
    regions,
    results,
    sentences,
    shapley,
)

for part in (
    overhead,
    accuracy,
    memory,
    engines,
    interactions,
    shapley,
    coverage,
    conditional,
    extrapolation,
    regions,
    sentences,
    results,
    page,
    plans,
):
    print(f"\n{(part.__doc__ or '').strip()}\n", flush=True)
    part.main()
