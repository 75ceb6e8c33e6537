"""Freeze the numbers of all calls before a change (`write DIR`), and compare with them after it (`same DIR`)."""

import argparse
import os
import sys
import time
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parents[2]


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.frozen")
    parser.add_argument("what", choices=["write", "same"])
    parser.add_argument("folder", type=Path, help="outside the repository")
    parser.add_argument("--only", default="*", help="calls whose names match, such as 'shapley_importance/*'")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--rounding", type=float, default=0.0, help="relative difference that is allowed for a reason")
    parser.add_argument("--words", action="store_true", help="names and rules may differ, for a reason")
    options = parser.parse_args()
    if options.folder.resolve().is_relative_to(ROOT):
        parser.error(f"{options.folder} is inside the repository, but such numbers belong to one machine")
    for library in ("OMP", "OPENBLAS", "MKL"):  # read when NumPy is loaded: sums depend on the number of threads
        os.environ[f"{library}_NUM_THREADS"] = "1"
    sys.path.insert(0, str(ROOT / "tests" / "support"))
    from tests.frozen import records, running
    from tests.frozen.compare import compare

    old, made_with = records.load(options.folder) if options.what == "same" else ({}, records.here())
    start = time.perf_counter()
    new = running.run_all([name for name in running.CALLS if fnmatch(name, options.only)], options.jobs)
    raised = sum(bool(one.raised) for one in new.values())
    print(f"{len(new):,} calls in {time.perf_counter() - start:.0f} s, {raised} of them raise")
    if options.what == "write":
        records.save(new, options.folder)
        return 0
    if made_with != records.here():
        print(f"frozen with {made_with}, now {records.here()}")
    verdict = compare(
        {n: one for n, one in old.items() if fnmatch(n, options.only)}, new, options.rounding, options.words
    )
    print(verdict)
    return int(bool(verdict.failures))


if __name__ == "__main__":
    sys.exit(main())
