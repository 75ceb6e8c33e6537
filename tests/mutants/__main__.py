"""`python -m tests.mutants`: draw mutants, run their tests, print a table and what survived."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import tomllib
from collections import Counter
from math import sqrt
from pathlib import Path

from tests.mutants import run
from tests.mutants.sample import ROOMS, Mutant, sample

RESULTS = run.CACHE / "verdicts.jsonl"


def main() -> None:
    """Parse the command line and run."""
    asked = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    asked.add_argument("--count", type=int, default=400, help="mutants in the sample")
    asked.add_argument("--seed", type=int, default=1, help="of the sample")
    asked.add_argument("--only", nargs="+", choices=list(ROOMS), help="rooms to sample")
    asked.add_argument("--again", type=Path, metavar="FILE", help="only what survived or was not covered in this file")
    asked.add_argument("--slow", action="store_true", help="run slow tests, too, where all others pass")
    asked.add_argument("--jobs", type=int, default=2, help="processes")
    asked.add_argument("--out", type=Path, default=RESULTS, metavar="FILE", help=f"verdicts, a line each; {RESULTS}")
    asked.add_argument("--list", action="store_true", help="print the mutants and stop")
    options = asked.parse_args()
    mutants = sample(run.SOURCE, options.count, options.seed, options.only)
    if options.again:
        alive = {tuple(one["key"]) for one in _read(options.again) if one.get("outcome", "killed") != "killed"}
        mutants = [mutant for mutant in mutants if mutant.key in alive]
    if options.list:
        print("\n".join(_shown(mutant) for mutant in mutants))
        return
    known = _equivalent()
    left = [mutant for mutant in mutants if mutant.key not in known]
    random.Random(0).shuffle(left)  # whenever it is stopped, what is done is a sample of all rooms
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("")
    selection = run.Selection(run.find_reach(), slow=options.slow)
    forking = multiprocessing.get_context("fork")
    parts = [left[start :: options.jobs] for start in range(min(options.jobs, len(left)))]
    processes = [forking.Process(target=_judge, args=(part, selection, options.out)) for part in parts]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    of_key = {mutant.key: mutant for mutant in left}
    lines = _read(options.out)
    done = [run.Verdict(mutant, "equivalent") for mutant in mutants if mutant.key in known]
    done += [
        run.Verdict(of_key[tuple(one["key"])], one["outcome"], one["killer"], one["tests"])
        for one in lines
        if "key" in one
    ]
    print(summary(done))
    wrong = [test for one in lines for test in one.get("wrong", [])]
    print(f"tests that killed mutants and fail without one: {', '.join(wrong) or 'none'}")


def _judge(mutants: list[Mutant], selection: run.Selection, path: Path) -> None:
    """Judge mutants in this process; a line each is added to the file."""
    with path.open("a", buffering=1) as out:

        def tell(verdict: run.Verdict) -> None:
            mutant = verdict.mutant
            numbers = {"tests": verdict.tests, "seconds": round(verdict.seconds, 1), "line": mutant.line}
            one = {"room": mutant.room, "key": mutant.key, "outcome": verdict.outcome, "killer": verdict.killer}
            out.write(json.dumps(one | numbers) + "\n")
            print(f"{verdict.outcome} {verdict.seconds:.1f} s {mutant.path}:{mutant.line}", flush=True)

        out.write(json.dumps({"wrong": run.judge(mutants, selection, tell)}) + "\n")


def summary(done: list[run.Verdict]) -> str:
    """What survived, and a table of rooms. A timeout counts as survived: it may be the machine's."""
    lines = [
        _shown(one.mutant) + f"\n    {one.outcome}, {one.tests} tests"
        for one in done
        if one.outcome in ("survived", "not covered", "timeout")
    ]
    lines += [f"{'room':12} killed timeout survived not covered undecided equivalent   killed, 95% interval"]
    for room in [*ROOMS, "all"]:
        count = Counter(one.outcome for one in done if room in ("all", one.mutant.room))
        dead, total = count["killed"], sum(count.values()) - count["equivalent"] - count["undecided"]
        if total:
            low, high = wilson(dead, total)
            widths = {"killed": 6, "timeout": 7, "survived": 8, "not covered": 11, "undecided": 9, "equivalent": 10}
            numbers = " ".join(f"{count[outcome]:{width}}" for outcome, width in widths.items())
            lines.append(f"{room:12} {numbers}   {dead} of {total}: {dead / total:.0%} ({low:.0%} to {high:.0%})")
    return "\n".join(lines)


def wilson(k: int, n: int) -> tuple[float, float]:
    """The 95% interval of a share k / n.

    >>> [round(end, 3) for end in wilson(48, 72)]
    [0.552, 0.765]
    """
    z = 1.959964
    middle, half = (k + z * z / 2) / (n + z * z), z * sqrt(k * (n - k) / n + z * z / 4) / (n + z * z)
    return middle - half, middle + half


def _shown(mutant: Mutant) -> str:
    return f"{mutant.room}: src/losslens/{mutant.path}:{mutant.line}\n  - {mutant.before}\n  + {mutant.after}"


def _equivalent() -> set[tuple[str, str, str]]:
    listed = tomllib.loads((Path(__file__).parent / "equivalent.toml").read_text())["mutant"]
    return {(one["path"], one["before"], one["after"]) for one in listed}


def _read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


if __name__ == "__main__":
    main()
