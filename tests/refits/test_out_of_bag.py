"""The recipe for Breiman's out-of-bag importance: trees on the rows that they were not fitted on, by brute force."""

import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

PAGE = Path(__file__).parents[2] / "docs" / "coming_from.md"
(RECIPE,) = (
    code
    for code in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    if "estimators_samples_" in code
)
LOOP = RECIPE[RECIPE.index("by_tree = []") :]
RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=60), RNG.integers(0, 3, 60), RNG.normal(size=60), np.ones(60)])
Y = X[:, 0] * X[:, 1] + 0.3 * X[:, 2]


def by_brute_force(forest, X, y, loss):
    """Every pair of out-of-bag rows of every tree, asked through its own predict, (T, p)."""
    changes = np.empty((len(forest.estimators_), X.shape[1]))
    for t, (tree, bag) in enumerate(zip(forest.estimators_, forest.estimators_samples_, strict=True)):
        rows = [i for i in range(len(X)) if i not in bag]
        for j in range(X.shape[1]):
            replaced = np.repeat(X[rows], len(rows), axis=0)
            replaced[:, j] = np.tile(X[rows, j], len(rows))
            before, after = (
                loss(tree.predict(table), y)
                for table, y in ((X[rows], y[rows]), (replaced, np.repeat(y[rows], len(rows))))
            )
            changes[t, j] = after.mean() - before.mean()
    return changes


def test_the_recipe_is_the_mean_over_all_pairs_of_out_of_bag_rows():
    names = {}
    exec(RECIPE, names)
    changes = by_brute_force(names["forest"], names["X"], names["y"], lambda f, y: (f - y) ** 2)
    np.testing.assert_allclose(names["by_tree"], changes, rtol=1e-9, atol=1e-9 * changes.max())
    np.testing.assert_allclose(names["importance"], changes.mean(axis=0), rtol=1e-9)
    assert (names["error_over_trees"] > 0).all()


def test_a_column_that_no_tree_can_use_has_none():
    names = {"X": X, "y": Y, "forest": RandomForestRegressor(8, random_state=1).fit(X, Y)}
    exec("import numpy as np, losslens as ll\n" + LOOP, names)
    assert names["importance"][3] == 0
    assert names["importance"][0] > 0


@pytest.mark.filterwarnings("ignore::UserWarning")  # of few rows
def test_of_a_classifier_as_the_page_says():
    words = np.array(["low", "mid", "top"])[np.digitize(Y, [-0.3, 0.5])]
    forest = RandomForestClassifier(8, random_state=1).fit(X, words)
    names = {"X": X, "y": np.searchsorted(forest.classes_, words), "forest": forest}
    exec("import numpy as np, losslens as ll\n" + LOOP.replace('donors="all"', 'donors="all", loss="zero_one"'), names)
    changes = by_brute_force(forest, X, names["y"], lambda f, y: (f != y).astype(float))
    np.testing.assert_allclose(names["by_tree"], changes, atol=1e-12)
