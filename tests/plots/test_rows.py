"""Pictures of single rows and of clusters, as data and artists; the results are real ones."""

import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PathCollection, QuadMesh

import losslens as ll
from losslens.plots.rows import MOST_DOTS, MOST_NUMBERED, NUMBERED
from pictures import caption, looked_at, texts

LONG = "the share of households with two or more children in the municipality, in percent ({})"


def predict(X):
    return X[:, 0] * 3 + X[:, 1]


def table(n=200, wrong=()):
    X = np.random.default_rng(0).normal(size=(n, 3))
    y = predict(X) + 0.5 * np.random.default_rng(1).normal(size=n)
    y[list(wrong)] = np.where(predict(X)[list(wrong)] > 0, -12, 12)
    return X, y


def observed(n=200, wrong=()):
    X, y = table(n, wrong)
    return ll.shapley_importance(predict, X, y, loss="squared_error", random_state=0).rank_rows()


def numbered(ax):
    return [int(text.get_text().replace(",", "")) for text in ax.texts if text.get_gid() == NUMBERED]


def dots(ax):
    (found,) = [some for some in ax.collections if isinstance(some, PathCollection)]
    return found.get_offsets()


def inside(ax):
    page = ax.figure.bbox
    low, high = sorted(ax.get_ylim())
    ticks = [tick.label1 for tick in ax.yaxis.get_major_ticks() if low <= tick.get_loc() <= high]
    shown = [text for text in [*ax.texts, *ticks, ax.xaxis.label, ax.yaxis.label] if text.get_text()]
    boxes = [text.get_window_extent() for text in shown]
    return all(b.x0 >= -1 and b.y0 >= -1 and b.x1 <= page.x1 + 1 and b.y1 <= page.y1 + 1 for b in boxes)


def test_suspicious_rows_are_marked_with_their_numbers():
    found = observed(wrong=(5, 60))
    ax = looked_at(found.plot())
    assert sorted(numbered(ax)) == sorted(found.suspicious) == [5, 60]
    assert len(dots(ax)) == 198
    assert "2 rows stand out below the dashed line (diamonds, with their numbers)" in caption(ax)
    assert any(line.get_ydata()[0] == found.fence for line in ax.lines)
    assert inside(ax)


def test_nobody_suspicious():
    ax = looked_at(observed().plot())
    assert numbered(ax) == []
    assert "no row stands out" in caption(ax)
    assert len(dots(ax)) == 200


def test_many_rows_are_thinned_out_and_suspicious_ones_are_not():
    wrong = range(0, 20_000, 1000)
    found = observed(20_000, wrong)
    ax = looked_at(found.plot())
    assert len(dots(ax)) <= MOST_DOTS
    assert len(found.suspicious) > MOST_NUMBERED
    (marks,) = [line for line in ax.lines if line.get_marker() == "D"]
    assert len(marks.get_xdata()) == len(found.suspicious)
    assert 1 <= len(numbered(ax)) <= MOST_NUMBERED
    assert f"{len(numbered(ax))} with their numbers" in caption(ax)
    assert inside(ax)


@pytest.mark.parametrize("n", [50, 20_000])
def test_the_rows_that_move_an_importance_most_are_bars_with_their_signs(n):
    X, y = table(n)
    imp = ll.feature_importance(predict, X, y, loss="squared_error", donors=ll.Latin(5), features="x0", random_state=0)
    found = imp["x0"].row_influence
    ax = looked_at(found.plot())
    most = np.argsort(-np.abs(found.total), kind="stable")[:10]
    assert [text.get_text() for text in ax.get_yticklabels()] == [f"row {i:,}" for i in most]
    np.testing.assert_allclose([bar.get_width() for bar in ax.patches], found.total[most])
    assert f"the 10 of {n:,} rows that move it most" in caption(ax)
    assert inside(ax)


def test_rows_with_labels_have_no_numbers():
    X, y = table(200, wrong=(5, 60))
    X = pd.DataFrame(X, columns=list("abc"), index=[f"town {i}" for i in range(200)])

    def model(X):
        return predict(X.to_numpy())

    one = ll.feature_importance(model, X, y, loss="squared_error", features="a")["a"]
    found = ll.shapley_importance(model, X, y, loss="squared_error", random_state=0).rank_rows()
    assert all(
        label.get_text().startswith("row town ") for label in looked_at(one.row_influence.plot()).get_yticklabels()
    )
    ax = looked_at(found.plot())
    assert all(text.get_text().startswith("town ") for text in ax.texts if text.get_gid() == NUMBERED)
    assert "diamonds, with their labels" in caption(ax)
    assert "numbers" not in caption(ax)


@pytest.fixture(scope="module")
def clusters():
    rng = np.random.default_rng(0)
    names = [LONG.format(letter) for letter in "abg"]
    X = pd.DataFrame(np.column_stack([rng.normal(size=(300, 2)), rng.random(300) < 0.4]), columns=names)

    def model(X):
        return np.where(X[names[2]] == 1, 5 * X[names[0]], 5 * X[names[1]])

    shapley = ll.shapley_importance(model, X, model(X), loss="squared_error", features=names[:2], method="exact")
    return shapley.clusters(X, random_state=0)


def test_clusters_have_their_profiles_sizes_and_rules(clusters):
    ax = looked_at(clusters.plot())
    (mesh,) = [some for some in ax.collections if isinstance(some, QuadMesh)]
    order = np.argsort(-(clusters.shares @ np.abs(clusters.profiles)), kind="stable")
    np.testing.assert_allclose(np.asarray(mesh.get_array()).reshape(2, 2), clusters.profiles[:, order])
    for c, name in enumerate(" ".join(text.split()) for text in texts(ax.get_yticklabels())):
        assert name.startswith(f"{c}: {clusters.sizes[c]} rows")
        assert name.endswith(f"(g) {clusters.rules[c].split('(g) ')[1]}")  # what the rule says is not cut off
    assert f"stability {clusters.stability:.2f}" in caption(ax)
    assert inside(ax)


def test_one_cluster_is_one_row_of_colours(clusters):
    X, y = table()
    shapley = ll.shapley_importance(predict, X, y, loss="squared_error")
    ax = looked_at(shapley.clusters(X, k=1).plot())
    (mesh,) = [some for some in ax.collections if isinstance(some, QuadMesh)]
    assert np.asarray(mesh.get_array()).size == 3
    assert abs(mesh.get_window_extent().height) > 20
    assert texts(ax.get_yticklabels()) == ["0: 200 rows (100%)"]
