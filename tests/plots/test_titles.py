"""Titles that claim what a picture shows: what they say, on data where it would be false, and in which names."""

import re

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import losslens as ll
from losslens.results.sentences import ranges, rarity
from losslens.text import CLAIMS

N = 120


def title(ax):
    """What stands over the axes, on one line."""
    text = " ".join(ax.get_title(loc="left").split())
    plt.close(ax.figure)
    return text


def data(noise=0.3):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 3)).round(2), columns=["x0", "x1", "unused"])
    return X, predict(X) + noise * rng.normal(size=N)


def predict(X):
    return 3 * X["x0"].to_numpy() + X["x1"].to_numpy()


@pytest.fixture(scope="module")
def imp():
    return ll.feature_importance(predict, *data(), loss="squared_error", progress=False)


def test_a_picture_has_no_title_unless_it_is_asked_for(imp):
    assert title(imp.plot()) == title(imp["x0"].plot()) == ""
    assert title(imp.plot(title="Bicycles, test set")) == "Bicycles, test set"
    with pytest.raises(TypeError, match="title is a text, 'auto' or None; got 3"):
        imp.plot(title=3)


def test_the_leading_feature_is_named_where_it_surely_leads(imp):
    text = title(imp.plot(title="auto", labels={"x0": ("trend", "m")}))
    assert text.startswith("The model depends most on trend: when trend is shuffled between rows, ")
    assert "no other feature matters as much (95% confidence)" in text


def test_of_noise_no_feature_is_said_to_matter():
    """The target is independent of all columns."""
    X, _ = data()
    y = np.random.default_rng(1).normal(size=N)
    made = ll.feature_importance(lambda X: 0.3 * predict(X), X, y, loss="squared_error", progress=False)
    text = title(made.plot(title="auto"))
    assert "surely" not in text or text.startswith("No single feature surely matters")
    assert "depends most" not in text or "may make no difference" in text


def test_the_peak_is_where_the_error_is_largest(imp):
    """By brute force: every row with one value, for each value that occurs; in the unit of the axis."""
    X, y = data()
    after = [np.mean((predict(X.assign(x0=value)) - y) ** 2) for value in X["x0"]]
    peak, now = X["x0"][int(np.argmax(after))], np.mean((predict(X) - y) ** 2)
    text = title(imp["x0"].plot(title="auto"))
    assert text.startswith(f"x0 matters most at {peak:.2f}:".replace("-", "−"))
    numbers = [float(part) for part in re.findall(r"is ([\d.]+) instead of ([\d.]+) ", text)[0]]
    assert numbers == pytest.approx([max(after), now], rel=0.02)
    assert "squared error is" in text
    share = min((X["x0"] <= peak).mean(), (X["x0"] >= peak).mean())
    assert share < 0.1
    assert text.endswith(f" (only {share:.0%} of the rows have it).")


def test_a_feature_that_the_model_ignores_has_no_title(imp):
    effects = ll.feature_effect(predict, data()[0], progress=False)
    assert title(imp["unused"].plot(title="auto")) == title(effects["unused"].plot(title="auto")) == ""
    assert title(effects["x1"].plot(title="auto")).startswith("Along x1, the mean prediction ranges from −")


def test_a_title_and_its_picture_speak_one_unit(imp):
    """The number of the sentence less the one in the caption is the length of the bar."""
    ax = imp.plot(title="auto")
    after, now = map(
        float, re.findall(r"is ([\d.]+) instead of ([\d.]+)[;:,]", " ".join(ax.get_title("left").split()))[0]
    )
    assert after - now == pytest.approx(imp["x0"].pfi, rel=0.01)
    plt.close(ax.figure)


def test_how_rare_values_are():
    """Of an ordered grid the tail counts, of words each word; a missing value has no tail."""
    weights = np.array([0.02, 0.03, 0.9, 0.05])
    tails = rarity(["1", "2", "3", "missing"], weights, ordered=True)
    assert tails[0] == tails[0].replace("or less", "") == "only 2% of the rows have it"
    assert tails[1:] == ["only 5% of the rows have 2 or less", "", "only 5% of the rows have it"]
    assert rarity(["a", "b", "c", "d"], weights, ordered=False)[1] == "only 3% of the rows have it"
    assert rarity(["a"], None, ordered=False) == [""]
    few = ranges("x", ["0", "1"], np.array([1.0, 2.0]), "prediction", ["", "only 3% of the rows have it"])
    assert few == "Along x, the mean prediction ranges from 1.00 (at 0) to 2.00 (at 1; only 3% of the rows have it)."


def test_the_largest_effect_is_named_where_it_is_exact_and_of_several_rows():
    """Of a sum of independent terms, the mean absolute effect is that of the term from its mean."""
    X, _ = data()
    effects = ll.shapley_effect(predict, X, list(range(N)), progress=False)
    size = np.abs(3 * (X["x0"] - X["x0"].mean())).mean()
    text = title(effects.plot(title="auto"))
    start = f"Of all features, x0 moves the prediction most: up or down by {size:.2f} on average"
    assert text == f"{start} over these {N} rows."
    assert title(effects.given([0]).plot(title="auto")) == ""
    alike = ll.shapley_effect(lambda X: 0.0 * predict(X), X, [0, 1], progress=False)
    assert title(alike.plot(title="auto")) == ""


def test_nothing_is_claimed_where_rows_are_unlike_real_ones():
    """Values where most replaced rows are far from real ones are NaN: no extreme is there."""
    assert ranges("x", ["a", "b", "c"], np.array([1.0, 2.0, np.nan]), "prediction").endswith("2.00 (at b).")
    assert ranges("x", ["a", "b"], np.array([np.nan, np.nan]), "prediction") == ""


def test_pairs_are_said_to_work_together_only_where_the_model_combines_them():
    X, y = data()
    added = ll.pair_interactions(predict, X, y, loss="squared_error", progress=False)
    assert title(added.plot(title="auto")) == ""
    product = X["x0"] * X["x1"]
    found = ll.pair_interactions(
        lambda X: (X["x0"] * X["x1"]).to_numpy(), X, product + y - predict(X), loss="squared_error", progress=False
    )
    assert title(found.plot_ranking(title="auto")).startswith("x0 and x1 work together in the model: ")


def test_every_title_is_a_registered_claim(imp):
    X, y = data()
    shares = ll.shapley_importance(predict, X, y, loss="squared_error", progress=False, random_state=0)
    weak = ll.weak_segments(predict, X, y, loss="squared_error", progress=False)
    models = {"good": predict, "half": lambda X: predict(X) / 2}
    compared = ll.compare(models, X, y, loss="squared_error", shapley=False, progress=False)
    results = [imp, imp["x0"], imp["x0"].effect, shares, shares.rank_rows(), shares.clusters(X, random_state=0), weak]
    made = [one._message for one in [*results, compared]]
    assert all(text.claim in CLAIMS for text in made)
    assert made[-1].startswith("good surely has the smallest error")
