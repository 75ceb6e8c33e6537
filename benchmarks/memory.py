"""Peak memory above the data, at n = 10,000 rows x 10,000 donors, against the memory= that was asked for.

Bar: at most 1. Each size runs in a process of its own. Also: the time of
`import losslens` beyond NumPy (bar: 0.3 s).
"""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np


def resident(line: str) -> int:
    """The resident size now (VmRSS) or at its peak (VmHWM), in bytes; Linux says so."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition(f"{line}:")[2].split()[0])


def forget_peak() -> None:
    """Start the peak anew: a process inherits that of its parent."""
    Path("/proc/self/clear_refs").write_text("5")


def one(memory: str) -> None:
    """Explain one feature over all pairs and print the peak above what was there before, over `memory`."""
    import losslens as ll
    from losslens.tables.checks import memory_bytes

    rng = np.random.default_rng(0)
    X = rng.normal(size=(10_000, 13))
    y = X[:, 0] + rng.normal(size=10_000)
    small = ll.feature_importance(model, X[:50], y[:50], loss="squared_error")  # everything is imported and warm
    forget_peak()
    before = resident("VmRSS")
    started = time.perf_counter()
    imp = ll.feature_importance(model, X, y, loss="squared_error", features=[0], donors="all", memory=memory)
    seconds = time.perf_counter() - started
    share = (resident("VmHWM") - before) / memory_bytes(memory)
    kept = len(imp["x0"].rows)
    assert len(small) == 13
    print(f"{memory:>8}{share:8.2f}{1.0:6.2f}{kept:>8,}{imp.n_predictions:>14,}{seconds:8.1f} s", flush=True)


def model(X: np.ndarray) -> np.ndarray:
    """A cheap model: the memory is then ours."""
    return X[:, 0] + X[:, 1] * X[:, 2]


def imports(rounds: int = 9) -> float:
    """Median seconds of `import losslens` beyond `import numpy`, in fresh processes, interleaved."""

    def seconds(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    return median(seconds("import losslens") - seconds("import numpy") for _ in range(rounds))


def main() -> None:
    """Print the table."""
    print("n = 10,000 x m = 10,000 cells, one feature: peak memory above the data / memory=")
    print(f"{'memory':>8}{'peak':>8}{'bar':>6}{'kept':>8}{'predictions':>14}{'time':>8}")
    for memory in ("64 MiB", "256 MiB", "1 GiB", "4 GiB"):
        subprocess.run([sys.executable, "-m", "benchmarks.memory", memory], check=True)
    print(f"import losslens beyond NumPy: {imports():.2f} s (bar 0.30)")


if __name__ == "__main__":
    one(sys.argv[1]) if len(sys.argv) > 1 else main()
