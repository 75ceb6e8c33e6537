"""Curves over an ordered feature: single rows pale, their mean strong, the two extreme rows named."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from losslens.plots import canvas
from losslens.plots.canvas import BAND, DASHED, GREEN, INK, PALE, SINGLE, VERMILLION, evenly, folded, paler
from losslens.plots.curve_names import name_ends, room_for_names
from losslens.plots.feature_data import MOST_VALUES, FeaturePicture
from losslens.plots.importance_axis import EVERYTHING, bend, beyond, importance_ticks
from losslens.plots.partners import partner_of
from losslens.plots.scale import Scale, dress, scale
from losslens.plots.shapley_effect import COLOURS, value_bar
from losslens.plots.wording import count, number, some_of
from losslens.typing import Floats

MARKED = 40  # grid values up to which each has a marker, and a bar of its own in the strip
BINS = 40  # bins of the strip where there are more
STRIP = 0.07  # height of the strip at the bottom, as a share of the axes

# Rasterised: hundreds of curves would make a PDF slow.
PALE_STYLE: dict[str, Any] = {"rasterized": True, "zorder": 1, "gid": SINGLE}
# Largest and smallest: colour, dashes and shape differ, so that they are distinct in print.
EXTREMES = (("largest", VERMILLION, "-", "^"), ("smallest", GREEN, (0, (2, 1)), "v"))


def draw_lines(shown: FeaturePicture, ax: Axes) -> None:
    """Mean, band, single rows and the distribution of the feature."""
    places = scale(shown.values[0], shown.weights)
    bend(ax.yaxis, shown.look.scale, shown.curve)
    _draw_mean(ax, shown, places)
    if (band := shown.band) is not None:
        fill_band(ax, places, band.low, band.high, shown.colour, f"{band.level:.0%} band of {shown.curve_name}")
    if shown.level is not None:
        name = "PFI" if shown.look.panel else f"PFI, {number(shown.level)}"  # panels share a legend
        ax.axhline(shown.level, label=name, zorder=4, **DASHED)
    strip = draw_strip(ax, places, shown.weights, shown.distribution)
    drawn = _draw_singles(ax, shown, places)
    limits = shown.limits(drawn)
    zero = shown.from_zero or bool(shown.centred)
    named = dress_curves(
        ax, places, shown.title, shown.axis, limits, strip=strip, zero=zero, names=not shown.look.panel
    )
    canvas.caption(ax, [*named, *_notes(shown, drawn, limits)])


def dress_curves(
    ax: Axes, places: Scale, title: str, what: str, limits: tuple[float, float] = EVERYTHING, *, strip: float = 0.0,
    zero: bool = True, names: bool = True,
) -> list[str]:  # fmt: skip
    """Names of both axes and of the curves, a line at 0, and limits that leave space for names and for the strip.

    Curves have their names at their ends, or where these don't fit in a legend; returns what the caption names.
    """
    share = room_for_names(ax) if names else 0.0
    if zero and ax.get_yscale() != "log":
        ax.axhline(0, color=INK, linewidth=0.6, zorder=2)
    dress(ax, places, title, 1 - share)
    ax.set_ylabel(folded(what, 0.9 * canvas.size_in_points(ax)[1]), parse_math=False)
    canvas.plain_frame(ax)
    canvas.make_room(ax, strip, canvas.legend(ax) if names and not share else 0.0, limits)
    importance_ticks(ax.yaxis)
    if names:  # panels have one axis for all
        canvas.above_strip(ax, strip)
    return name_ends(ax, share, strip) if share else []


def _notes(shown: FeaturePicture, drawn: Floats, limits: tuple[float, float]) -> list[str]:
    out, kind = beyond(limits, drawn), "point" if shown.scattered else "curve"
    notes = [f"the axis follows {shown.curve_name}: {out:,} of {count(len(drawn), kind)} run beyond it"] if out else []
    band = shown.band
    if band is not None and beyond(limits, np.array([band.low, band.high])):
        notes.append("the band runs beyond the axis")
    if shown.scattered:
        notes.append(f"points, not curves: each value is paired with other rows ({shown.design})")
    return [*notes, *shown.warnings("hollow" if shown.scattered else "faded")]


def _draw_singles(ax: Axes, shown: FeaturePicture, places: Scale) -> Floats:
    """Pale curves, thinned, and the two extremes; returns the pale values, one curve a row, or the points."""
    singles = shown.rows
    if singles is None:
        return np.empty(0)
    chosen = singles.thinned()
    title = f"{singles.name}, {some_of(len(chosen), len(singles.result.at), 'row')}"
    if shown.scattered:
        where, drawn, _ = singles.points(chosen)
        _pale_points(ax, places.x[where], drawn, title)
    else:
        drawn = singles.curves(chosen)
        partner = None if shown.look.partner is None else partner_of(singles, shown.look.partner, shown.columns)
        ranks = None if partner is None else partner.ranks[singles.rows[chosen]]
        pale = _pale_curves(ax, places, drawn, title, ranks)
        if partner is not None and pale is not None:
            value_bar(ax, pale, shown.look.names.of(partner.name))
    extremes = [] if shown.look.panel else singles.extremes()  # there is no room to name them
    for position, (place, colour, dashes, marker) in zip(extremes, EXTREMES, strict=False):
        curve, label = singles.curves(np.array([position]))[0], singles.label(position, place)
        style: dict[str, Any] = {"color": colour, "label": label, "zorder": 3, "gid": SINGLE}
        if shown.scattered:
            some = np.isfinite(curve)
            ax.plot(places.x[some], curve[some], marker, markersize=4.5, **style)
        else:
            trace(ax, places, curve, marker=marker, linestyle=dashes, linewidth=1.3, **style)
    return drawn


def _pale_curves(ax: Axes, places: Scale, curves: Floats, title: str, ranks: Floats | None) -> LineCollection | None:
    """Thin curves, grey or in the colours of these ranks; returns them where the feature has more than one value."""
    some = evenly(np.arange(len(places.x))[places.present], MOST_VALUES)
    positions, curves_present, pale = places.x[some], curves[:, some], None
    if len(positions) > 1:
        lines = [np.column_stack((positions, curve)) for curve in curves_present]
        look: dict[str, Any] = {"colors": PALE, "linewidths": 0.5, "alpha": 0.45}
        if ranks is not None:
            look = {"array": ranks, "cmap": colormaps[COLOURS].with_extremes(bad=PALE), "linewidths": 0.8, "alpha": 0.7}
        pale = LineCollection(lines, clim=(0, 1), label=title, **look, **PALE_STYLE)
        ax.add_collection(pale)
    elif len(positions) == 1:  # a constant feature has no line
        _pale_points(ax, np.repeat(positions, len(curves)), curves_present.ravel(), title)
    if places.missing:
        absent = np.tile(places.x[places.absent], len(curves)), curves[:, places.absent].ravel()
        _pale_points(ax, *absent, None if len(positions) else title)
    return pale


def _pale_points(ax: Axes, positions: Floats, values: Floats, title: str | None) -> None:
    ax.plot(positions, values, ".", color=PALE, markersize=4, markeredgewidth=0, alpha=0.5, label=title, **PALE_STYLE)


def _draw_mean(ax: Axes, shown: FeaturePicture, places: Scale) -> None:
    """The strong curve; points sized by weight where the values are separate estimates."""
    faded = shown.faded
    if not shown.scattered:
        strong: dict[str, Any] = {"color": shown.colour, "linewidth": 2.4, "zorder": 5, "label": shown.curve_name}
        weak = {"linestyle": (0, (2, 1.3)), "linewidth": 1.5}
        faded_line(ax, places, shown.curve, faded, weak, marker="o", **strong)
        return
    finite = np.isfinite(shown.curve)
    area = np.ones(len(places.x)) if shown.weights is None else shown.weights / shown.weights.max()
    size, label = 4 + 60 * area * min(1.0, 60 / max(finite.sum(), 1)), f"{shown.curve_name}, sized by weight"
    if faded.any():
        some = finite & faded
        look: dict[str, Any] = {"facecolors": "none", "edgecolors": shown.colour, "alpha": 0.8}
        name = label if some[finite].all() else None
        ax.scatter(places.x[some], shown.curve[some], s=size[some], label=name, linewidths=0.7, zorder=5, **look)
        finite &= ~faded
    if finite.any():
        style: dict[str, Any] = {"color": shown.colour, "alpha": 0.8, "linewidths": 0, "zorder": 5}
        ax.scatter(places.x[finite], shown.curve[finite], s=size[finite], label=label, **style)


def faded_line(
    ax: Axes, places: Scale, curve: Floats, faded: NDArray[np.bool_], weak: dict[str, Any], **strong: Any
) -> None:
    """A strong curve, with this weak style and hollow markers where most replaced rows are unlike any real one."""
    trace(ax, places, np.where(faded, np.nan, curve) if faded.any() else curve, **strong)
    if faded.any():
        weak = strong | {"color": paler(strong["color"]), "label": None} | weak
        part = np.append(widened(faded[places.present]), faded[places.absent])
        trace(ax, places, np.where(part, curve, np.nan), **weak | {"marker": ""})
        hollow = {"markerfacecolor": "white", "linestyle": "none", "markeredgecolor": strong["color"]}
        trace(ax, places, np.where(faded, curve, np.nan), **weak | hollow | {"zorder": strong["zorder"] + 0.5})


def widened(faded: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """The faded values and their neighbours: a segment of a curve is faded if one of its ends is."""
    wider = faded.copy()
    wider[1:] |= faded[:-1]
    wider[:-1] |= faded[1:]
    return wider


def fill_band(
    ax: Axes, places: Scale, low: Floats, high: Floats, colour: str, label: str, *, joined: bool = True
) -> None:
    """A band around a curve; a single value and the missing one, or all that are not joined, have a bar each."""
    style: dict[str, Any] = {"color": colour, "alpha": 0.22, "zorder": 4, "gid": BAND}
    area = joined and len(places.x[places.present]) > 1
    if area:
        positions, here = places.x[places.present], places.present
        ax.fill_between(positions, low[here], high[here], linewidth=0, label=label, **style)
    alone = places.absent if area else slice(0, len(places.x))
    if len(places.x[alone]):
        style |= {"linewidth": 5, "label": None if area else label}
        ax.vlines(places.x[alone], low[alone], high[alone], **style)


def trace(ax: Axes, places: Scale, curve: Floats, *, marker: str, **style: Any) -> None:
    """One curve, with markers if its values are few; the missing value is a separate point."""
    positions, values = places.x[places.present], curve[places.present]
    if len(positions):
        ax.plot(positions, values, marker=marker if len(positions) <= MARKED else None, markersize=4, **style)
    if places.missing:
        style |= {"linestyle": "none", "label": None if len(positions) else style.get("label")}
        absent = places.absent
        ax.plot(places.x[absent], curve[absent], marker="D" if marker == "o" else marker, markersize=6, **style)


def draw_strip(ax: Axes, places: Scale, weights: Floats | None, title: str, few: int = MARKED) -> float:
    """The feature's distribution along the bottom; returns the share of the height that it takes.

    Up to `few` values have a bar each, more are counted in bins.
    """
    positions = places.x[places.present]
    finite = np.isfinite(positions)
    if weights is None or not finite.any():
        return 0.0
    positions, share = positions[finite], weights[places.present][finite]
    # In this transform, heights are shares of the axes.
    style: dict[str, Any] = {"transform": ax.get_xaxis_transform(), "color": PALE, "zorder": 0, "label": title}
    if len(positions) <= few:
        ax.vlines(positions, 0, _heights(share), linewidth=3, **style)
    else:
        share, edges = np.histogram(positions, bins=BINS, weights=share)
        ax.stairs(_heights(share), edges, fill=True, linewidth=0, **style)
    return STRIP


def _heights(share: Floats) -> Floats:
    """Heights as shares of the axes; rare values remain visible."""
    return np.where(share > 0, np.maximum(share / share.max(), 0.06), 0.0) * STRIP
