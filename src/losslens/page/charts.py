"""The Bokeh figures of the page, empty: the page's own script fills and colours them and handles their events.

They show numbers and dates; the script draws categories itself, as a table that has room for their names.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from bokeh.document import Document
from bokeh.models import (
    BasicTicker,
    BoxSelectTool,
    ColumnDataSource,
    DatetimeAxis,
    FixedTicker,
    LinearAxis,
    Range1d,
)
from bokeh.models.annotations import Span, Title
from bokeh.plotting import figure

HEIGHT, UNDER = 320, 120  # of the curves and of the distribution under them, in pixels
LEFT = 84  # pixels for the numbers and words beside the axes: the same in all figures, so that they are aligned

LINES = (  # name, width, dash; later ones are drawn above
    ("all", 2, "4 4"), ("bridge", 1.5, "1 4"), ("faded", 3, "2 4"), ("mean", 3, "solid"), ("picked", 2.5, "solid"),
    ("lit", 2.5, "solid"),
)  # fmt: skip
DOTTED = ("faded", "mean", "picked", "lit")  # of these: where values are few or missing


@cache
def document() -> dict[str, Any]:
    """The figures as Bokeh's JSON, and the element of the page for each."""
    page = Document()
    places = []
    for side in ("pi", "pd"):
        across = Range1d(start=0, end=1, name=f"{side}-x")
        for name, plot in ((side, _curves(side, across)), (f"{side}-rows", _distribution(side, across))):
            page.add_root(plot)
            places.append(f"chart-{name}")
    return {"document": page.to_json(deferred=False), "places": places}


def _figure(name: str, across: Range1d, height: int) -> figure:
    """A chart without tools but the brush, whose parts the page finds by name; `across` is its horizontal axis."""
    plot = figure(
        name=name,
        height=height,
        sizing_mode="stretch_width",
        x_range=across,
        y_range=Range1d(start=0, end=1, name=f"{name}-y"),
        x_axis_type=None,
        toolbar_location=None,
        tools="",
        min_border_left=LEFT,
        min_border_right=12,
        min_border_top=4,
        outline_line_color=None,
        output_backend="canvas",
    )
    plot.yaxis.name = f"{name}-up"
    plot.ygrid.name = f"{name}-lines"
    brush = BoxSelectTool(dimensions="width", renderers=[], name=f"{name}-brush")
    plot.add_tools(brush)
    plot.toolbar.active_drag = brush
    plot.toolbar.logo = None
    return plot


def _curves(side: str, across: Range1d) -> figure:
    """Curves of single rows, the mean of each model with its band, and the picked and the hovered row."""
    plot = _figure(side, across, HEIGHT)
    plot.yaxis.ticker = FixedTicker(ticks=[], name=f"{side}-ticker")
    look = {"line_width": 1, "line_dash": "dashed", "visible": side == "pi"}
    zero = Span(location=0, dimension="width", name=f"{side}-zero", **look)
    plot.add_layout(zero)
    many: dict[str, list[Any]] = {"xs": [], "ys": []}
    plot.multi_line("xs", "ys", source=_source(f"{side}-curves", many), name=f"{side}-curves-of", line_width=1)
    bands = _source(f"{side}-bands", {"xs": [], "ys": [], "colour": [], "alpha": []})
    plot.patches("xs", "ys", fill_color="colour", fill_alpha="alpha", line_color=None, source=bands)
    whiskers = _source(f"{side}-whiskers", {"x": [], "low": [], "high": [], "colour": []})  # of missing values
    plot.segment(x0="x", x1="x", y0="low", y1="high", color="colour", line_width=2, source=whiskers)
    others = _source(f"{side}-others", {"xs": [], "ys": [], "colour": [], "dash": []})  # other models
    plot.multi_line("xs", "ys", color="colour", line_dash={"field": "dash"}, line_width=2, source=others)
    dots = _source(f"{side}-others-dots", {"x": [], "y": [], "colour": []})
    plot.scatter("x", "y", color="colour", size=6, source=dots)
    one: dict[str, list[Any]] = {"x": [], "y": []}
    for part, width, dash in LINES:
        source = _source(f"{side}-{part}", one)
        plot.line("x", "y", source=source, name=f"{side}-{part}-of", line_width=width, line_dash=dash)
        if part in DOTTED:
            dots = _source(f"{side}-{part}-dots", one)
            plot.scatter("x", "y", source=dots, name=f"{side}-{part}-dots-of", size=6 if width < 3 else 7)
    return plot


def _distribution(side: str, across: Range1d) -> figure:
    """Bars of all rows and of the subgroup, with the axis for the values: numbers or dates."""
    name = f"{side}-rows"
    plot = _figure(name, across, UNDER)
    bars: dict[str, list[Any]] = {"left": [], "right": [], "top": []}
    for part in ("all", "group"):
        plot.quad(
            left="left",
            right="right",
            top="top",
            bottom=0,
            source=_source(f"{name}-{part}", bars),
            name=f"{name}-{part}-of",
        )
    notes: dict[str, list[Any]] = {"x": [], "y": [], "text": []}
    plot.text(
        "x",
        "y",
        "text",
        source=_source(f"{name}-notes", notes),
        name=f"{name}-notes-of",
        text_align="right",
        text_baseline="top",
        text_font_size="11px",
    )
    plot.add_layout(LinearAxis(name=f"{name}-number"), "below")
    plot.add_layout(DatetimeAxis(name=f"{name}-date", visible=False), "below")
    plot.add_layout(Title(text="", name=f"{name}-title", align="center", text_font_style="normal"), "below")
    plot.yaxis.ticker = BasicTicker(desired_num_ticks=3)
    plot.yaxis.minor_tick_line_color = None
    plot.yaxis.axis_label = "rows"
    return plot


def _source(name: str, columns: dict[str, Any]) -> ColumnDataSource:
    return ColumnDataSource(data=columns, name=name)
