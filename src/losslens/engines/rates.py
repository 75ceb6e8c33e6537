"""Approximate cost of work: seconds per unit, on one core, or between two machines.

Expected times are counts of work times these rates. Rates with a benchmark named beside them were measured once by it;
the others are round numbers of the right order. All are fixed, so that choices based on them are the same on every
machine.
"""

# Exact engines, one core (`benchmarks.engines`, `benchmarks.shapley`).
SECONDS = {"tree pairs": 4e-9, "leaf means": 2e-9}
SMALL_TREE, LARGE_TREE = 3e-7, 2e-6  # all curves of a row in a tree: of at most 64 leaves, or more
LOOKED_UP, WALKED = 1e-9, 3e-8  # a pair in a small tree, and in a large one
ADDED = 1e-7  # a value of an additive model
LINKED = 8e-8  # a value of a sum inside a link
MULTIPLIED = 3e-10  # a multiply-add of a kernel machine

# Data read in parts, beside what is timed (`benchmarks.scale`).
CELL = 1.5e-7  # a cell of a black box, beside its prediction: gather, loss, sum
DONOR_VALUE = 5e-8  # a donor's value, looked up among all rows

# The page of a report, beside importances, shares and pairs (`benchmarks.plans`).
PAGE = {"report": 0.5, "feature": 0.1, "value": 1e-4}  # of a page, of a feature, and of a row of a feature
PAGE_ROWS = 2000  # rows beyond which the page takes no longer

# A cluster (`benchmarks.scale`).
TASK = 0.01  # sending a task and receiving its result
WORKER_FACTOR = 1.6  # time on a worker / time in this process: it also serves its scheduler and frees memory at once
SENT_BYTE = 1e-8  # a byte from one machine to another: 1 Gbit a second


def on_a_cluster(seconds: float, tasks: int, threads: int, sent: int) -> float:
    """Time of so many seconds of work in tasks of equal size: in the last round some threads are idle."""
    return WORKER_FACTOR * seconds * -(-tasks // threads) / tasks + tasks * TASK + sent * SENT_BYTE
