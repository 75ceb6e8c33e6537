"""The long runs: random calls, numbers against brute force, and damaged files; all of them by default."""

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("what", nargs="?", choices=["calls", "numbers", "files", "all"], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--only", type=int, help="one case again, with its calls printed")
    asked = parser.parse_args()
    failed = 0
    if asked.what in ("calls", "all"):
        from tests.fuzz import calls

        start = time.perf_counter()
        tally = calls.run(asked.seed, calls=asked.calls, only=asked.only, trace=asked.only is not None)
        for finding in tally.findings:
            print(finding)
        print(f"calls, seed {asked.seed}: {tally}, in {time.perf_counter() - start:.0f} s")
        failed += len(tally.findings)
    if asked.what in ("numbers", "all"):
        from tests.fuzz import numbers

        start = time.perf_counter()
        found = numbers.run(asked.seed, cases=asked.cases, only=asked.only, trace=asked.only is not None)
        for failure in found.failures:
            print(failure)
        print(f"numbers, seed {asked.seed}: {found}\nin {time.perf_counter() - start:.0f} s")
        failed += len(found.failures)
    if asked.what in ("files", "all"):
        import damaged_files

        start = time.perf_counter()
        bad, loaded = damaged_files.run(asked.files, asked.seed)
        for number, file, damage, why in bad:
            print(f"file {number} of seed {asked.seed}: {file}, {damage}\n{why}")
        counted = f"{asked.files:,} damaged files, {loaded:,} of them loaded, {len(bad)} failures"
        print(f"files, seed {asked.seed}: {counted}, in {time.perf_counter() - start:.0f} s")
        failed += len(bad)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
