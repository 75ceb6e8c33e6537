"""How seconds grow with the rows, ours and the peers', as a figure: docs/images/growth.png.

Processor seconds of one thread after a call on a few rows, so that other processes of the machine hardly matter. About
5 minutes; a curve ends where a call would take minutes. `python -m benchmarks.growth [--most 100000] [--to FILE]`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd

import losslens as ll
from benchmarks.lines import in_one_thread
from benchmarks.peers import explain, fitted, permute, rows, unfitted

mpl.use("Agg")
from matplotlib import pyplot as plt

FIGURE = Path(__file__).parents[1] / "docs" / "images" / "growth.png"
SIZES = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
FEW, SHORT = 200, 0.5  # rows of the call before; seconds of a call that is made three times
OURS, TOO, THEIRS = ("#0072B2", "-"), ("#009E73", "-"), ("#D55E00", "--")
REPEATS = 5  # of scikit-learn; one is timed


@dataclass(frozen=True)
class Curve:
    """Who, a call for a table and a target, and the most rows."""

    name: str
    call: Callable[[Any, Any], Any]
    most: int
    drawn: tuple[str, str]  # colour and dashes
    scale: float = 1.0  # the call is a part of the work, this many times of which is all
    needs: str = "losslens"


def panels() -> dict[str, list[Curve]]:
    """Titles, and what is compared under them."""
    found = {}
    for name, ours, theirs in (("boosting", 1_000_000, 100_000), ("forest", 30_000, 10_000)):
        model = fitted(name, 10_000)
        found[f"13 permutation importances, {name}"] = [
            Curve("losslens, all pairs", partial(explain, model, engine="trees", n_jobs=1), ours, OURS),
            Curve(f"scikit-learn, {REPEATS} repeats", partial(permute, model, repeats=1), theirs, THEIRS, REPEATS),
        ]
    X, y, _, _ = rows(10_000, 1, 20)
    model = unfitted("LightGBM").fit(_frame(X), y)
    how: dict[str, Any] = {"n_jobs": 1, "progress": False}
    most = SIZES[-1]
    found["20 Shapley values, boosting"] = [
        Curve("losslens: importance ± error", lambda X, y: ll.shapley_importance(model, X, y, **how), most, OURS),
        Curve("losslens: effects, all donors", lambda X, y: ll.shapley_effect(model, X, slice(None), **how), most, TOO),
        Curve("woodelf: the same effects", partial(_woodelf, model), most, THEIRS, needs="woodelf"),
    ]
    return found


def _woodelf(model: Any, X: Any, y: Any) -> Any:
    return import_module("woodelf").WoodelfExplainer(model, X).shap_values(X, verbose=False)


def _frame(X: Any) -> Any:
    return pd.DataFrame(X, columns=[f"x{j}" for j in range(X.shape[1])])


def seconds(curve: Curve, p: int, most: int) -> dict[int, float]:
    """Processor seconds at each number of rows."""
    _, _, X, y = rows(0, min(curve.most, most), p)
    X = _frame(X) if p == 20 else X  # woodelf takes frames
    curve.call(X[:FEW], y[:FEW])
    found = {}
    for n in SIZES:
        if n > len(y):
            break
        took = [_seconds(curve, X[:n], y[:n])]
        if took[0] < SHORT:
            took += [_seconds(curve, X[:n], y[:n]) for _ in range(2)]
        found[n] = curve.scale * median(took)
    return found


def _seconds(curve: Curve, X: Any, y: Any) -> float:
    started = time.process_time()
    curve.call(X, y)
    return time.process_time() - started


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.growth", description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="rows")
    parser.add_argument("--to", type=Path, default=FIGURE, help="a file for the figure")
    asked = parser.parse_args()
    in_one_thread("benchmarks.growth")
    drawn = panels()
    figure, axes = plt.subplots(1, len(drawn), figsize=(10.5, 3.6), sharey=True, layout="constrained")
    for ax, (title, curves) in zip(axes, drawn.items(), strict=True):
        ax.set_title(title, loc="left", fontsize="medium")
        for curve in curves:
            if find_spec(curve.needs) is None:
                print(f"{title}: {curve.needs} is not installed")
                continue
            found = seconds(curve, 20 if title.startswith("20") else 13, asked.most)
            colour, dashes = curve.drawn
            ax.plot(
                *zip(*found.items(), strict=True), dashes, marker="o", markersize=3.5, color=colour, label=curve.name
            )
            slope = np.polyfit(np.log(list(found)[1:]), np.log(list(found.values())[1:]), 1)[0]
            shown = ", ".join(f"{n:,}: {took:.3g} s" for n, took in found.items())
            print(f"{title}; {curve.name}: {shown}; exponent from 3,000 rows {slope:.2f}", flush=True)
        ax.set(xscale="log", yscale="log", xlabel="rows", xlim=(700, 1_400_000))
        ax.grid(visible=True, which="major", linewidth=0.5, alpha=0.4)
        ax.spines[["top", "right"]].set_visible(False)
        ax.legend(frameon=False, fontsize="small", loc="upper left")
    axes[0].set_ylabel("processor seconds")
    axes[0].set_ylim(0.005, 3_000)
    figure.savefig(asked.to, dpi=110)
    print(asked.to)


if __name__ == "__main__":
    main()
