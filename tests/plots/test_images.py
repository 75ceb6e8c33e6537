"""A handful of whole pictures, pixel by pixel: what no single artist shows, such as what lies over what.

Look at a picture that fails before you accept it; then rebuild the baselines, all or one (-k), and commit them:

    .venv/bin/pytest -n0 --mpl-generate-path=tests/plots/images tests/plots/test_images.py

`--mpl` is among pytest's options in pyproject.toml, so that pictures are compared in every run.
"""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from matplotlib.testing.compare import calculate_rms

import losslens as ll
from pictures import plot_groups, plot_shares

# Root mean square of the differences between pixels, from 0 to 255. The same version of FreeType draws the same letters
# (matplotlib brings its own), so another patch version differs by rounding alone: under 1. A highlighted curve that is
# gone is 4 or more, two labels that have changed places 7: see the last test. A single pale curve among sixty can't be
# seen, here or by people; test_feature.py counts them.
DPI = 70
TOLERANCE = 3
DRAWN_WITH = "3.11"  # another minor version of matplotlib may place letters otherwise: rebuild with it
LOOK = {
    "baseline_dir": "images",
    "style": "default",  # not the style of whoever runs the tests; its font comes with matplotlib
    "backend": "agg",
    "tolerance": TOLERANCE,
    "savefig_kwargs": {"dpi": DPI, "metadata": {"Software": None}},
}
compared = pytest.mark.skipif(
    not mpl.__version__.startswith(f"{DRAWN_WITH}."), reason=f"the baselines are of matplotlib {DRAWN_WITH}"
)
N = 60


def table():
    rng = np.random.default_rng(0)
    town = np.array(["harbour", "hills", "old town"], object)[rng.integers(0, 3, N)]
    return pd.DataFrame({"temp": rng.uniform(-5, 30, N), "wind": rng.gamma(2, 4, N), "town": town})


def predict(X, wind=-1.5, sea=0.3):
    """Warm days are good ones, though less so by the sea; nobody likes the wind."""
    warm = np.clip(X["temp"], 0, 24) * np.where(X["town"] == "harbour", sea, 1.0)
    return np.asarray(4 * warm + wind * X["wind"] + 20 * (X["town"] == "old town"))


def truth(X):
    return predict(X) + 12 * np.sin(np.arange(N))  # noise that is the same everywhere


def importance(**asked):
    X = table()
    return ll.feature_importance(predict, X, truth(X), loss="squared_error", donors="all", **asked)


def shares(**model):
    X = table()
    return ll.shapley_importance(lambda X: predict(X, **model), X, truth(X), loss="squared_error", method="exact")


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_curves():
    return importance()["temp"].plot().figure


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_words():
    return importance()["town"].plot().figure


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_ranking():
    return importance().plot().figure


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_groups():
    return plot_groups(importance()["temp"].by(table()["town"])).figure


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_shares():
    return plot_shares({"right": shares(), "no sea": shares(sea=1.0), "likes the wind": shares(wind=3.0)}).figure


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_waterfall():
    return shares(wind=3.0).plot_waterfall().figure


@compared
@pytest.mark.mpl_image_compare(**LOOK)
def test_pair():
    return importance(features=[("temp", "wind")])["temp", "wind"].plot().figure


def pixels(ax):
    ax.figure.set_dpi(DPI)
    ax.figure.canvas.draw()
    return np.asarray(ax.figure.canvas.buffer_rgba(), float)[..., :3]


@pytest.mark.parametrize("start", ["PI", "PFI", "row 18 (mean", "row 43 (mean"])
def test_a_lost_curve_is_noticed(start):
    one = importance()["temp"]
    with mpl.style.context("default"):
        whole, ax = pixels(one.plot()), one.plot()
        (line,) = [line for line in ax.lines if str(line.get_label()).startswith(start)]
        line.remove()
        assert calculate_rms(whole, pixels(ax)) > TOLERANCE


def test_labels_that_have_changed_places_are_noticed():
    with mpl.style.context("default"):
        whole, ax = pixels(importance().plot()), importance().plot()
        ax.set_yticks(range(3), [label.get_text() for label in ax.get_yticklabels()][::-1])
        assert calculate_rms(whole, pixels(ax)) > TOLERANCE
