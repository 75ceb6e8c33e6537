"""What a person would read off a picture."""

from itertools import pairwise

from losslens import plots
from losslens.plots.look import Look, draws

LONG = "the share of {} among all households of the municipality, in percent, as counted in the census".format
SAME_ENDS = "a name that is the same at its beginning, only number {} differs, and the same at its end".format


def looked_at(ax):
    """The axes, drawn."""
    ax.figure.canvas.draw()
    return ax


def texts(labels):
    """What labels say."""
    return [label.get_text() for label in labels]


def legend(ax):
    """The names of what is drawn, each on one line: in a legend, or at the ends of curves and in the caption."""
    if ax.get_legend() is not None:
        return [" ".join(text.split()) for text in texts(ax.get_legend().get_texts())]
    written = [" ".join(text.get_text().split()) for text in names_of_curves(ax)]
    names = [" ".join(name.split()) for name in ax.get_legend_handles_labels()[1]]
    return [name for name in names if name in written or f": {name}" in caption(ax)]


def names_of_curves(ax):
    """The texts at the ends of curves."""
    return [text for text in ax.texts if text.get_gid() == "name of a curve"]


def caption(ax):
    """The caption, on one line."""
    lines = " ".join(t.get_text() for t in ax.texts if t.get_gid() == "caption")
    return " ".join(lines.replace("-\n", "-").split())


def named(ax, start):
    """The line, collection or patch whose label starts so."""
    (found,) = [a for a in [*ax.lines, *ax.collections, *ax.patches] if str(a.get_label()).startswith(start)]
    return found


def no_overlap(labels):
    """Whether no two labels, one above the other, touch."""
    boxes = sorted((label.get_window_extent() for label in labels if label.get_text()), key=lambda box: box.y0)
    return all(below.y1 <= above.y0 for below, above in pairwise(boxes))


def inside(ax, artists):
    """Whether the page holds all of these."""
    page = ax.figure.bbox
    boxes = [artist.get_window_extent() for artist in artists]
    return all(b.x0 >= -1 and b.y0 >= -1 and b.x1 <= page.x1 + 1 and b.y1 <= page.y1 + 1 for b in boxes)


@draws("curve")
def plot_groups(parts, *, scale="linear", colors=None, labels=None, ax=None):
    """Curves of parts with names of one's own: what `ByGroup.plot_curves` and `Regions.plot` draw."""
    return plots.subgroups.plot_groups(parts, ax, Look(scale=scale, colors=colors, labels=labels))


@draws("rows")
def plot_shares(models, *, top=None, colors=None, labels=None, ax=None):
    """Shares of models that have been made by hand: what `Comparison.plot_shares` draws."""
    return plots.shares.plot_shares(models, ax, Look(top, colors=colors, labels=labels))
