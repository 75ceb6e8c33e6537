"""Checks and a display for skore's reports: `report.checks.add(losslens.skore.checks())`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal
from weakref import WeakKeyDictionary

from matplotlib import pyplot as plt
from skore import CheckNotApplicable

from losslens.results.importances import Importances
from losslens.results.refits import Refits
from losslens.text import listed, share_in_words
from losslens.verbs.features import feature_importance
from losslens.verbs.segments import weak_segments

LEVEL = 0.05
IMPOSSIBLE = (
    0.3  # share of replaced rows unlike real ones, from which on an importance speaks about rows that don't exist
)


class ImportanceDisplay:
    """The importances of a report with their error bars, as skore's displays.

    Parameters
    ----------
    importances
        A result with importances of features: of one model, or of the fits of a cross-validation.
    """

    def __init__(self, importances: Importances | Refits) -> None:
        self.importances = importances
        self._style: dict[str, Any] = {}

    def plot(self, **options: Any) -> Any:
        """The ranking as a figure; options as in `Importances.plot`."""
        figure, ax = plt.subplots(layout="constrained")
        self.importances.plot(ax, **self._style | options)
        plt.close(figure)  # notebooks show what is returned, and would show it twice
        return figure

    def frame(self, **options: Any) -> Any:
        """The table: importance, standard error, interval, caution."""
        return self.importances.to_frame(**options)

    def set_style(self, *, policy: Literal["override", "update"] = "update", **options: Any) -> None:
        """Set options of `plot` for all further plots."""
        self._style = options if policy == "override" else self._style | options

    def help(self) -> None:
        """Show what the display has."""
        from rich import print as show

        show("ImportanceDisplay: .plot(top=, sort=, scale=), .frame(), .importances (intervals, tests, curves)")

    def __repr__(self) -> str:
        return repr(self.importances)

    def _repr_html_(self) -> str:
        return self.importances._repr_html_()


def importance(report: Any, **options: Any) -> ImportanceDisplay:
    """The permutation importances of a report's model on its test rows.

    Of a `CrossValidationReport` each fit is explained on its own test rows, and intervals are for the learner.

    Parameters
    ----------
    report
        A `skore.EstimatorReport` or `skore.CrossValidationReport`.
    **options
        Of `losslens.feature_importance`, such as ``loss`` and ``random_state``.

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skore import evaluate
    >>> import losslens.skore
    >>> report = evaluate(Ridge(), *load_diabetes(return_X_y=True, as_frame=True), splitter=0.3)
    >>> losslens.skore.importance(report).frame()["feature"].iloc[0]
    'bmi'
    """
    splits = getattr(report, "reports_", None)
    if splits is None:
        return ImportanceDisplay(_explained(report, options))
    folds = tuple(_explained(one, options) for one in splits)
    tested = tuple(test for _, test in report.split_indices)
    trained = tuple(len(train) for train, _ in report.split_indices)
    backend = next(iter(folds[0].values())).backend
    return ImportanceDisplay(Refits(folds=folds, tested=tested, trained=trained, n=len(report.y), backend=backend))


def checks() -> list[Check]:
    """Four checks of a model by its importances, for ``report.checks.add``.

    Which features are indistinguishable from noise (LL001), a segment of rows where the model is worse (LL002), an
    importance that a few rows decide (LL003), and features whose shuffled rows hardly exist (LL004).

    Examples
    --------
    >>> from sklearn.datasets import load_diabetes
    >>> from sklearn.linear_model import Ridge
    >>> from skore import evaluate
    >>> import losslens.skore
    >>> report = evaluate(Ridge(), *load_diabetes(return_X_y=True, as_frame=True), splitter=0.3)
    >>> report.checks.add(losslens.skore.checks())
    >>> bool((report.checks.summarize().frame()["code"] == "LL001").any())
    True
    """
    return [
        Check("LL001", "Features indistinguishable from noise", _noise, "tip"),
        Check("LL002", "A weak segment", _weak, "issue"),
        Check("LL003", "A few rows decide an importance", _few_rows, "tip"),
        Check("LL004", "Shuffling a feature creates unrealistic rows", _impossible, "tip"),
    ]


@dataclass(frozen=True)
class Check:
    """A check of skore's protocol: `find` returns a sentence about a fitted model and its test rows, or None."""

    code: str
    title: str
    find: Callable[[Any], str | None]
    severity: Literal["issue", "tip"]
    docs_url: str | None = None
    slow: bool = True  # it may predict: skore leaves it out in fast mode

    @property
    def report_types(self) -> list[str]:
        """The reports that it can check."""
        return ["estimator", "cross-validation"]

    def check_function(self, report: Any) -> str | None:
        """What is to be said of the report; of a cross-validation, where it holds of most splits."""
        splits = getattr(report, "reports_", None)
        if splits is None:
            return self._found(report)
        said = list[str]()
        for one in splits:
            with suppress(CheckNotApplicable):  # a split with too few rows, say, does not stop the others
                said += filter(None, [self._found(one)])
        if len(said) <= len(splits) / 2:
            return None
        return f"In {len(said)} of {len(splits)} splits, such as: {said[0]}"

    def _found(self, report: Any) -> str | None:
        try:
            return self.find(report)
        except (TypeError, ValueError) as error:
            raise CheckNotApplicable(str(error)) from error


_BY_REPORT: WeakKeyDictionary[Any, Importances] = WeakKeyDictionary()  # which several checks read


def _explained(report: Any, options: Mapping[str, Any]) -> Importances:
    if report.X_test is None or report.y_test is None:
        raise CheckNotApplicable("importances are computed on test rows, and the report has none")
    result: Importances = feature_importance(report.estimator_, report.X_test, report.y_test, **options)
    return result


def _importances(report: Any) -> Importances:
    if report not in _BY_REPORT:
        _BY_REPORT[report] = _explained(report, {"random_state": 0, "progress": False})
    return _BY_REPORT[report]


def _noise(report: Any) -> str | None:
    imp = _importances(report)
    tested = imp.test("holm")
    p = dict(zip(tested["feature"], tested["p_adjusted"], strict=True))
    names = [name for name in imp if not p.get(name, 1.0) <= LEVEL]
    rows = len(report.y_test)
    return f"On these {rows:,} rows the importance of {listed(names)} could be chance (Holm, 5%)." if names else None


def _weak(report: Any) -> str | None:
    weak = weak_segments(report.estimator_, report.X_test, report.y_test, random_state=0, progress=False)
    return weak.sentences[0] if weak.segments else None


def _few_rows(report: Any) -> str | None:
    imp = _importances(report)
    names = [name for name, one in imp.items() if "few rows decide" in one.caution]
    return (
        f"A few rows decide the importance of {listed(names)}: other rows may give another number." if names else None
    )


def _impossible(report: Any) -> str | None:
    measured = _importances(report).extrapolation
    shares = {name: one.share for name, one in measured.items() if one.share >= IMPOSSIBLE}
    said = [f"{name} ({share_in_words(share)})" for name, share in shares.items()]
    return f"Rows unlike any real one, of those with the feature shuffled: {listed(said)}." if said else None
