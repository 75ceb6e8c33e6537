"""The options that plots share: what each means, written once, and how a method of a result takes them.

Every plot has those that mean something for it. `options.check` looks at them before anything is drawn.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, Literal, ParamSpec

from losslens.typing import Axes, AxisScale, Colors, FeatureLabels, Limits, Sort

P = ParamSpec("P")
Kind = Literal["rows", "curve", "map"]
SECTION, EXAMPLES = "Parameters\n----------\n", "\n\nExamples\n--------\n"

# Of pictures with a row for each feature, and what differs for curves and heat maps.
ROWS = {
    "top": "How many features to draw, the most important ones; all that fit by default.",
    "sort": 'Order of the features: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.',
    "scale": 'Axis of the importances: ``"linear"``, ``"log"``, or ``"symlog"``, which also shows those up to 0.',
    "colors": "One colour for all features, a list from top to bottom, or a mapping from features to colours.",
    "labels": "Names to show instead of those of the features: a mapping to a name, or to a name and a unit.",
    "title": 'A title, none by default; ``"auto"`` writes what the picture shows, where one sentence can claim it.',
    "ax": "Where to draw; a new figure by default, as high as the names need.",
}
CURVE = ROWS | {
    "sort": 'Order in the legend: ``"importance"``, ``"name"`` or ``"given"``, the order of the columns.',
    "colors": "One colour for all curves, a list in the order of the legend, or a mapping from their names to colours.",
    "labels": "Name to show instead of the feature's, or name and unit: a mapping, which may also name other features.",
    "ax": "Where to draw; a new figure by default.",
}
TEXTS: dict[Kind, dict[str, str]] = {"rows": ROWS, "curve": CURVE, "map": ROWS | {"colors": "Colour map, or its name."}}


@dataclass(frozen=True)
class Names:
    """The names and units under which features are shown."""

    labels: FeatureLabels

    def of(self, feature: str) -> str:
        """A feature's name, in a row or a legend."""
        shown = self.labels.get(feature, feature)
        return shown if isinstance(shown, str) else shown[0]

    def all(self, features: Sequence[str]) -> list[str]:
        """The names of several features."""
        return [self.of(feature) for feature in features]

    def unit(self, feature: str) -> str:
        """The unit of a feature's values; empty if none was given."""
        shown = self.labels.get(feature, feature)
        return "" if isinstance(shown, str) else shown[1]

    def title(self, feature: str) -> str:
        """The name of an axis that holds the feature's values: with their unit."""
        unit = self.unit(feature)
        return f"{self.of(feature)} ({unit})" if unit else self.of(feature)


@dataclass(frozen=True)
class Look:
    """What is drawn, in which order, and how: the options of one plot."""

    top: int | None = None
    sort: Sort = "importance"
    scale: AxisScale = "linear"
    colors: Colors | None = None
    labels: FeatureLabels | None = None
    curves: bool = True
    limits: Limits = "pi"
    partner: Any = None  # the values that colour single rows, or results of which one has them
    panel: bool = False  # one of several small plots, which share a legend

    @property
    def names(self) -> Names:
        """The names under which features are shown."""
        return Names(self.labels or {})


def draws(kind: Kind) -> Callable[[Callable[P, Axes]], Callable[P, Axes]]:
    """Decorate a method that draws such a picture: its docstring describes every option, and each is checked first.

    Options that the docstring leaves out have the text that all such pictures share.

    >>> @draws("rows")
    ... def plot(self, *, top=None, ratio=False):
    ...     '''Draw.
    ...
    ...     Parameters
    ...     ----------
    ...     ratio
    ...         What this plot alone has.
    ...     '''
    >>> print(plot.__doc__)
    Draw.
    <BLANKLINE>
    Parameters
    ----------
    ratio
        What this plot alone has.
    top
        How many features to draw, the most important ones; all that fit by default.
    """

    def decorate(method: Callable[P, Axes]) -> Callable[P, Axes]:
        signature = inspect.signature(method)

        @wraps(method)
        def drawn(*arguments: P.args, **options: P.kwargs) -> Axes:
            from losslens.plots.canvas import write_title
            from losslens.plots.letters import find_fonts
            from losslens.plots.options import check

            bound = signature.bind(*arguments, **options).arguments
            check(bound)
            ax = method(*arguments, **options)
            if title := bound.get("title"):
                result: Any = arguments[0]
                write_title(ax, result._message if title == "auto" else title, bound.get("labels") or {})
            find_fonts(ax)
            return ax

        drawn.__doc__ = described(method.__doc__, list(signature.parameters), TEXTS[kind])
        return drawn

    return decorate


def described(doc: str | None, parameters: list[str], texts: dict[str, str]) -> str | None:
    """A docstring whose section on parameters has those that it leaves out, `ax` last; None where there is none."""
    if doc is None:  # of Python with -OO
        return None
    before, examples, after = inspect.cleandoc(doc).partition(EXAMPLES)
    summary, _, own = before.partition(f"\n\n{SECTION}")
    written = own.splitlines()
    named = {name for line in written if line[:1] != " " for name in line.split(", ")}
    for name in sorted((set(texts) - named) & set(parameters), key=lambda name: (name == "ax", parameters.index(name))):
        written += [name, *textwrap.wrap(texts[name], 116, initial_indent="    ", subsequent_indent="    ")]
    return "\n".join([summary, "", SECTION.rstrip(), *written]) + examples + after
