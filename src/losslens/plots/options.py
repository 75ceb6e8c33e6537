"""What each option of plots may be, names and colours of features, and the order in which they are drawn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, is_color_like, to_hex, to_rgba

from losslens.plots.look import Names
from losslens.tables.checks import is_one_of
from losslens.text import closest, listed
from losslens.typing import Colors, FeatureLabels, Indices, Sort

CHOICES = {
    "sort": ("importance", "name", "given"),
    "scale": ("linear", "log", "symlog"),
    "limits": ("pi", "all"),
    "color": ("value", None),
}


def check(options: Mapping[str, Any]) -> None:
    """Raise TypeError or ValueError, in one sentence that says what is allowed, unless all of these may be drawn with.

    >>> check({"top": 5, "sort": "name", "labels": {"temp": ("temperature", "°C")}})
    >>> check({"top": 0})
    Traceback (most recent call last):
    ValueError: top is how many to draw, a whole number from 1 on, or None for all that fit; got 0
    """
    for name, value in options.items():
        if name in CHOICES and not is_one_of(value, CHOICES[name]):
            *others, last = map(repr, CHOICES[name])
            raise ValueError(f"{name} is {', '.join(others)} or {last}; got {value!r}")
        if name in CHECKS:
            CHECKS[name](value)


def _check_ax(ax: Any) -> None:
    if ax is not None and not isinstance(ax, Axes):
        raise TypeError(f"ax must be one matplotlib Axes, or None for a new figure; got {type(ax).__name__}")
    if ax is not None and ax.name != "rectilinear":
        raise ValueError(f"ax must be axes at right angles; got {ax.name} axes")


def _check_top(top: Any) -> None:
    if top is None:
        return
    if isinstance(top, (bool, np.bool_)) or not isinstance(top, (int, np.integer)) or top < 1:
        raise ValueError(f"top is how many to draw, a whole number from 1 on, or None for all that fit; got {top!r}")


def _check_curves(curves: Any) -> None:
    if not isinstance(curves, (bool, np.bool_)):
        raise TypeError(f"curves is True or False: whether single rows are drawn; got {curves!r}")


def _check_labels(labels: Any) -> None:
    if labels is None:
        return
    if not isinstance(labels, Mapping):
        raise TypeError(f"labels is a mapping from features to the names to show; got {type(labels).__name__}")
    for feature, shown in labels.items():
        pair = isinstance(shown, (tuple, list)) and len(shown) == 2 and all(isinstance(part, str) for part in shown)
        if not (isinstance(shown, str) or pair):
            what = "labels: a label is a name, or a name and a unit as two texts"
            raise TypeError(f"{what}; got {shown!r} for {feature!r}")


def _check_title(title: Any) -> None:
    if not (title is None or isinstance(title, str)):
        raise TypeError(f"title is a text, 'auto' or None; got {title!r}")


CHECKS: dict[str, Callable[[Any], None]] = {
    "ax": _check_ax,
    "top": _check_top,
    "curves": _check_curves,
    "labels": _check_labels,
    "title": _check_title,
}


def name_features(labels: FeatureLabels | None, features: Sequence[str], columns: Sequence[str] = ()) -> Names:
    """The names of these features, after checking that `labels` names no others.

    For a single feature it may: one mapping then serves the plots of all features.

    >>> names = name_features({"temp": ("temperature", "°C")}, ["temp", "hum"])
    >>> names.of("temp"), names.title("temp"), names.of("hum")
    ('temperature', 'temperature (°C)', 'hum')
    """
    all_names = [*dict.fromkeys((*features, *columns))]
    for name in labels or {}:
        if name not in all_names and len(features) > 1:
            raise ValueError(_unknown("labels", name, all_names, "feature"))
    return Names(labels or {})


def _unknown(option: str, name: Any, all_names: Sequence[Any], what: str) -> str:
    near = closest(name, map(str, all_names))
    hint = f"; did you mean {near!r}?" if near else "."
    return f"{option} names {name!r}, which is no {what} here{hint} The {what}s are {listed(list(map(str, all_names)))}"


def most_of(top: int | None, total: int) -> int:
    """How many of all to draw: `top` at most."""
    return total if top is None else min(int(top), total)


def arrange(names: Sequence[str], ranked: Indices, sort: Sort) -> Indices:
    """Positions of the features to draw, given the most important first, in the requested order.

    >>> arrange(["b", "a", "c"], np.array([2, 0]), "name").tolist()
    [0, 2]
    """
    if sort == "name":
        return np.array(sorted(ranked.tolist(), key=lambda j: (names[j].casefold(), names[j])), np.intp)
    return np.sort(ranked) if sort == "given" else ranked


# -- colours ----------------------------------------------------------------------------------------------------------


def one_colour(colors: Any, default: str) -> str:
    """The one colour of a plot."""
    if colors is None:
        return default
    if not is_color_like(colors):
        raise ValueError(f"colors is one colour here, such as 'tab:green' or '#009E73'; got {colors!r}")
    return _hex(colors)


def check_colours(colors: Colors | None, all_names: Sequence[Any], what: str) -> None:
    """Raise, before there is a figure, unless these things may have such colours."""
    colours(colors, all_names[:1], ["black"], what, all_names)


def colours(
    colors: Colors | None, things: Sequence[Any], default: Sequence[str], what: str, all_names: Sequence[Any] = ()
) -> list[str]:
    """A colour for each thing that is drawn: one for all, a list in their order, or a mapping from some of them.

    A mapping may also name those of `all_names` that are not drawn.

    >>> colours({"b": "red"}, ["a", "b"], ["black", "black"], "feature")
    ['black', '#ff0000']
    >>> colours(["red"], ["a", "b"], ["black", "black"], "feature")
    Traceback (most recent call last):
    ValueError: colors has 1 colour for 2 features; give one for each, a mapping, or a single colour for all
    """
    if colors is None:
        return list(default[: len(things)])
    if is_color_like(colors):
        return [_hex(colors)] * len(things)
    if isinstance(colors, Mapping):
        all_names = all_names or things
        for name in colors:
            if name not in all_names:
                raise ValueError(_unknown("colors", name, all_names, what))
        return [_hex(colors[thing]) if thing in colors else own for thing, own in zip(things, default, strict=False)]
    if isinstance(colors, np.ndarray) and colors.ndim == 2:  # rows of a colour map
        colors = list(colors)
    if isinstance(colors, str) or not isinstance(colors, Sequence):
        raise ValueError(
            f"colors is a colour, a list of colours, or a mapping from each {what} to a colour; got {colors!r}"
        )
    if len(colors) < len(things):
        given = "1 colour" if len(colors) == 1 else f"{len(colors)} colours"
        raise ValueError(
            f"colors has {given} for {len(things)} {what}s; give one for each, a mapping, or a single colour for all"
        )
    return [_hex(colour) for colour in colors[: len(things)]]


def _hex(colour: Any) -> str:
    if not is_color_like(colour):
        raise ValueError(f"colors holds {colour!r}, which is no colour of matplotlib's, such as 'tab:green'")
    return to_hex(colour, keep_alpha=to_rgba(colour)[3] < 1)


def colour_map(colors: Any, default: str) -> Colormap:
    """The colour map of a plot whose colours are a scale.

    >>> colour_map(None, "cividis").name, colour_map("viridis", "cividis").name
    ('cividis', 'viridis')
    """
    if isinstance(colors, Colormap):
        return colors
    if colors is not None and not (isinstance(colors, str) and colors in mpl.colormaps):
        raise ValueError(f"colors is a colour map here, or its name such as 'cividis'; got {colors!r}")
    return mpl.colormaps[colors or default]
