"""Results in an MLflow run: their table, picture, numbers, and the file that `losslens.load` opens."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import mlflow
from matplotlib import pyplot as plt

from losslens.cli.printing import as_csv, records
from losslens.page.report import Report

LETTERS = r"[^\w\-. :]"  # all others are refused in names of metrics
LONGEST = 200  # letters of a name; MLflow refuses more than 250


def log_importance(importance: Any, name: str = "importance", run_id: str | None = None) -> None:
    """Log importances, or Shapley shares, or those of refits, to an MLflow run.

    The run gets the artifacts ``{name}/table.csv``, ``{name}/ranking.png`` and ``{name}/result.losslens``, and for each
    feature the metrics ``{name}/{feature}`` and ``{name}_std_error/{feature}``.

    Parameters
    ----------
    importance
        A result with one number a feature, such as that of `losslens.feature_importance`.
    name
        The folder of the artifacts, and what the names of the metrics begin with.
    run_id
        The run; None: the active one, or a new one.

    Examples
    --------
    ``with mlflow.start_run(): losslens.mlflow.log_importance(ll.feature_importance(model, X, y))``
    """
    if not all(hasattr(importance, name) for name in ("ranks", "save", "to_frame")):
        raise TypeError(f"pass a result with one number a feature, as of feature_importance; got {importance!r:.80}")
    rows = records(importance.to_frame())
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "table.csv").write_text(as_csv(rows), "utf-8")
        importance.save(Path(folder, "result.losslens"))
        figure, ax = plt.subplots(layout="constrained")
        importance.plot(ax)
        figure.savefig(Path(folder, "ranking.png"), dpi=150)
        plt.close(figure)
        mlflow.log_artifacts(folder, name, run_id=run_id)
    number = "importance" if "importance" in rows[0] else "sfimp"
    called = _metric_names([row["feature"] for row in rows])
    metrics = {f"{name}/{metric}": row[number] for metric, row in zip(called, rows, strict=True)}
    metrics |= {f"{name}_std_error/{metric}": row["std_error"] for metric, row in zip(called, rows, strict=True)}
    mlflow.log_metrics({key: x for key, x in metrics.items() if x is not None and math.isfinite(x)}, run_id=run_id)


def log_report(report: Report, name: str = "report.html", run_id: str | None = None) -> None:
    """Log a report, one page that opens offline, as an artifact of an MLflow run.

    Parameters
    ----------
    report
        What `losslens.report` returns.
    name
        The name of the file.
    run_id
        The run; None: the active one, or a new one.

    Examples
    --------
    ``with mlflow.start_run(): losslens.mlflow.log_report(ll.report(model, X, y))``
    """
    if not isinstance(report, Report):
        raise TypeError(f"pass what losslens.report returns; got {type(report).__name__}")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        report.save(path)
        mlflow.log_artifact(str(path), run_id=run_id)


def _metric_names(features: Sequence[str]) -> list[str]:
    """A name for each feature that MLflow takes, and that no other has.

    >>> _metric_names(["a+b", "a*b", "price/", ".."])
    ['a_b', 'a_b_2', 'price_', '_']
    """
    names: list[str] = []
    for feature in features:
        plain = re.sub(LETTERS, "_", feature)[:LONGEST]
        plain = re.sub(r"^[. ]+|[. ]+$", "_", plain) or "_"
        name, k = plain, 2
        while name in names:
            name, k = f"{plain}_{k}", k + 1
        names.append(name)
    return names
