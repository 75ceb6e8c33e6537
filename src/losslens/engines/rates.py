"""Approximate seconds of work on one core or between two machines, from which follows whether a cluster is faster.

Round numbers of the right order (`benchmarks.engines`, `benchmarks.scale`); fixed, so that the choice is the same on
every machine.
"""

# All curves of a row in a tree: of at most 64 leaves, or of more.
SMALL_TREE, LARGE_TREE = 3e-7, 2e-6
TASK = 0.01  # sending a task and receiving its result
WORKER_FACTOR = 1.6  # time on a worker / time in this process: it also serves its scheduler and frees memory at once
SENT_BYTE = 1e-8  # a byte from one machine to another: 1 Gbit a second


def on_a_cluster(seconds: float, tasks: int, threads: int, sent: int) -> float:
    """Time of so many seconds of work in tasks of equal size: in the last round some threads are idle."""
    return WORKER_FACTOR * seconds * -(-tasks // threads) / tasks + tasks * TASK + sent * SENT_BYTE
