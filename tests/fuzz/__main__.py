"""The long runs: random calls, numbers against brute force, and damaged files; all of them by default."""

import argparse
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "support"))


def calls(asked):
    from tests.fuzz import calls

    tally = calls.run(asked.seed, calls=asked.calls, only=asked.only, trace=asked.only is not None)
    return tally.findings, tally


def numbers(asked):
    from tests.fuzz import numbers

    tally = numbers.run(asked.seed, cases=asked.cases, only=asked.only, trace=asked.only is not None)
    return tally.failures, tally


def files(asked):
    import damaged_files

    bad, loaded = damaged_files.run(asked.files, asked.seed)
    failures = [f"file {number} of seed {asked.seed}: {file}, {damage}\n{why}" for number, file, damage, why in bad]
    return failures, f"{asked.files:,} damaged files, {loaded:,} of them loaded, {len(bad)} failures"


RUNS = {run.__name__: run for run in (calls, numbers, files)}  # each gives what it found, and a summary


def main():
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("what", nargs="?", choices=[*RUNS, "all"], default="all")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--only", type=int, help="one case again, with its calls printed")
    asked = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # threads that wait for each other count as CPU time of a call
    failed = False
    for what in RUNS if asked.what == "all" else [asked.what]:
        start = time.perf_counter()
        failures, summary = RUNS[what](asked)
        print(*failures, f"{what}, seed {asked.seed}, in {time.perf_counter() - start:.0f} s: {summary}", sep="\n")
        failed |= bool(failures)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
