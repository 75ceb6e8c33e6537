"""What a person would read off a picture."""


def looked_at(ax):
    """The axes, drawn."""
    ax.figure.canvas.draw()
    return ax


def texts(labels):
    """What labels say."""
    return [label.get_text() for label in labels]


def legend(ax):
    """The entries of the legend, each on one line."""
    return [" ".join(text.split()) for text in texts(ax.get_legend().get_texts())]


def caption(ax):
    """The caption, on one line."""
    lines = " ".join(t.get_text() for t in ax.texts if t.get_gid() == "caption")
    return " ".join(lines.replace("-\n", "-").split())
