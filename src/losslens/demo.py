"""Explain a model of the Bikeshare data, and print its importances: python -m losslens.demo."""

from __future__ import annotations

import time
from functools import partial

import losslens as ll
from losslens.datasets import load_bikeshare

PAGE = "report-bikeshare.html"


def main() -> None:
    """Fit, explain, print, write the report: it prints each step when it begins, each result once it is there."""
    say = partial(_say, time.monotonic())
    say("loading pandas and scikit-learn")
    try:
        from sklearn.ensemble import HistGradientBoostingRegressor
        from sklearn.model_selection import train_test_split

        X, y = load_bikeshare()
    except ImportError as error:
        raise SystemExit('the demo needs scikit-learn and pandas: pip install "losslens[demo]"') from error

    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=1000, random_state=0)
    say(f"fitting a model of bikes hired per hour to {len(X_train):,} hours")
    model = HistGradientBoostingRegressor(categorical_features="from_dtype", random_state=0)
    model.fit(X_train, y_train)
    say(f"explaining it on {len(X_test):,} other hours; the first time on a machine, compiling for that")
    imp = ll.feature_importance(model, X_test, y_test)
    say("the first result, and the hour on working days (1) and days off (0)")
    print(f"\n{imp}\n\n{imp['hr'].by(X_test['workingday'])}\n")
    say("computing a report, the longest step: shares, pairs of features, regions, rows that look wrong")
    page = ll.report(
        model, X_test, y_test, by="workingday", title="Bikeshare", target_name="bikes per hour", random_state=0
    )
    say("writing it")
    page.save(PAGE)
    say(f"done: open {PAGE} in a browser")


def _say(started: float, words: str) -> None:
    """What begins now, and how many seconds after the start; written at once."""
    print(f"{time.monotonic() - started:5.1f} s  {words}", flush=True)


if __name__ == "__main__":
    main()
