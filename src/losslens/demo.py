"""Explain a model of the Bikeshare data, and print its importances: python -m losslens.demo."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import losslens as ll
from losslens.datasets import load_bikeshare

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console
    from rich.table import Table

    from losslens.results.importance import FeatureImportance
    from losslens.results.importances import Importances


PAGE = "report-bikeshare.html"


class Clock:
    """Says what begins now, and how many seconds after the start."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.started = time.monotonic()

    def tell(self, words: str) -> None:
        """One line, written at once."""
        self.console.print(f"{time.monotonic() - self.started:5.1f} s  {words}", highlight=False, soft_wrap=True)


def main() -> None:
    """Fit, explain, print, write the report: it prints each step when it begins, each result once it is there."""
    from rich.console import Console

    console = Console()
    clock = Clock(console)
    clock.tell("loading pandas and scikit-learn")
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.model_selection import train_test_split

        X, y = load_bikeshare()
    except ImportError as error:
        raise SystemExit('the demo needs scikit-learn and pandas: pip install "losslens[demo]"') from error

    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1000, random_state=0)
    clock.tell(f"fitting a model of bikes hired per hour to {len(X_train):,} hours")
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
    model.fit(X_train, y_train)
    clock.tell(f"explaining it on {len(X_test):,} other hours; the first time on a machine, compiling for that")
    imp = ll.feature_importance(model, X_test, y_test)
    clock.tell("the first result")
    console.print(
        f"\nTest error (mean squared) {imp.error:,.0f}. Importance: its increase when the feature's value"
        f" is replaced by that of another hour.\n"
    )
    console.print(importance_table(imp))
    console.print(
        f"{imp.n_predictions:,} predictions, engine {imp.engine}, "
        f"{'exact: every pair of rows' if imp.exact else f'sampled: {imp.design}'}.\n"
    )
    console.print(hour_table(imp["hr"].by(X_test["workingday"])))
    console.print()
    clock.tell("computing a report, the longest step: shares, pairs of features, regions, rows that look wrong")
    page = ll.report(
        model, X_test, y_test, by="workingday", title="Bikeshare", target_name="bikes per hour", random_state=0
    )
    clock.tell("writing it")
    page.save(PAGE)
    clock.tell(f"done: open {PAGE} in a browser")


def importance_table(imp: Importances) -> Table:
    """One line a feature, the most important first."""
    from rich.table import Table

    table = Table("feature")
    for heading in ("importance", "standard error", "ratio"):
        table.add_column(heading, justify="right")
    for name, one in sorted(imp.items(), key=lambda item: -item[1].pfi):
        table.add_row(name, f"{one.pfi:,.1f}", f"{one.std_error:,.1f}", f"{one.ratio:.2f}")
    return table


def hour_table(by_workingday: Mapping[Any, FeatureImportance]) -> Table:
    """The importance of the hour, for working days and days off, and the maximum of its PI curve."""
    from rich.table import Table

    table = Table("hr, given", title="The same feature on working days and days off", title_justify="left")
    for heading in ("importance", "standard error", "hour with the largest loss"):
        table.add_column(heading, justify="right")
    for label, words in ((1, "working day"), (0, "day off")):
        one = by_workingday[label]
        table.add_row(words, f"{one.pfi:,.1f}", f"{one.std_error:,.1f}", f"{int(one.grid[one.pi.argmax()])}:00")
    return table


if __name__ == "__main__":
    main()
