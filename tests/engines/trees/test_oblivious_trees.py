"""Oblivious trees: the curves that a search among all leaves finds, to the last bit."""

from dataclasses import replace

import numpy as np
import pytest

from losslens.engines.readers.ensemble import Ensemble
from losslens.engines.readers.layout import complete_tree
from losslens.engines.trees.bound import bind
from losslens.engines.trees.large_trees import LargeTrees
from losslens.engines.trees.oblivious_trees import ObliviousTrees, levels_of
from losslens.engines.trees.small_trees import SmallTrees, tables
from losslens.tables.frames import as_table

P, N = 4, 150


def ensemble(rng, depths, outputs=1, together=False):
    """Complete trees with one question a level; few features, so that some are asked for twice in a tree."""
    parts, values, nodes, leaves = [], [], 0, 0
    for depth in depths:
        level, right, _ = complete_tree(depth)
        question = rng.integers(0, P - 1, depth), rng.choice([-9.0, -0.5, 0.0, 0.3, 0.9, 9.0], depth)
        leaf = level < 0
        number = leaves + np.cumsum(leaf) - 1
        feature, border = (np.where(leaf, -1, np.append(of, 0)[level]) for of in question)
        parts.append((np.array([nodes]), feature, border, np.where(leaf, number, right + nodes)))
        values.append(rng.normal(size=(leaf.sum(), outputs if together else 1)).round(2))
        nodes, leaves = nodes + len(level), leaves + leaf.sum()
    roots, feature, border, right = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    return Ensemble(
        roots=roots.astype(np.int32),
        feature=feature.astype(np.int32),
        threshold=border.astype(float),
        right=right.astype(np.int32),
        missing_left=np.zeros(nodes, bool),
        value=np.concatenate(values),
        output=np.zeros(len(depths), np.int32) if together else rng.integers(0, outputs, len(depths)).astype(np.int32),
        offset=np.zeros(outputs),
        link=lambda raw: raw,
    )


def bound_to(trees, X):
    columns = as_table(X)
    distinct = [columns.column(j).distinct for j in range(X.shape[1])]
    return bind(
        trees,
        len(distinct[0].codes),
        distinct,
        {j: (np.array([j]), one.values[:, None]) for j, one in enumerate(distinct)},
    )


def curves(search):
    """All steps: how many each row has, where they begin, and their sums."""
    parts = list(search.steps(3, N))
    shown = [(part.start - part.start[:, :1], part.classes, part.raw, part.own) for part in parts]
    return [np.concatenate([np.array(of) for of in each]) for each in zip(*shown, strict=True)]


@pytest.mark.parametrize(
    ("depths", "outputs", "together"),
    [
        ([3] * 9, 1, False),
        ([0, 1, 2, 6, 3, 1], 1, False),
        ([4, 2, 4, 5], 3, False),
        ([4, 2, 4], 3, True),
        ([8, 3], 1, False),
    ],
)
def test_curves(depths, outputs, together):
    rng = np.random.default_rng(len(depths))
    X = np.column_stack([rng.normal(size=N), rng.integers(-1, 2, N), rng.normal(size=N), np.ones(N)])
    bound = bound_to(ensemble(rng, depths, outputs, together), X)
    for wanted in (np.ones(P, np.uint8), np.array([0, 1, 0, 1], np.uint8)):
        levels = levels_of(bound)
        found = curves(ObliviousTrees(bound, levels, wanted))
        small = max(depths) <= 6
        known = curves(SmallTrees(bound, tables(bound), wanted) if small else LargeTrees(bound, wanted, 1 << 24))
        for mine, theirs in zip(found, known, strict=True):
            assert np.array_equal(mine, theirs)


def test_every_class_is_a_step():
    """Also where two leaves are equal, so that the curve doesn't jump."""
    rng = np.random.default_rng(1)
    trees, X = ensemble(rng, [2, 3]), rng.normal(size=(N, P))
    bound = bound_to(replace(trees, value=np.ones_like(trees.value)), X)
    start, classes, raw, own = curves(ObliviousTrees(bound, levels_of(bound), np.ones(P, np.uint8)))
    assert np.array_equal(start[0], np.append(0, np.cumsum(bound.size)))
    assert np.array_equal(classes, np.tile(np.concatenate([np.arange(size) for size in bound.size]), N - 3))
    assert np.all(raw == own[0])


def test_other_trees_are_not_oblivious():
    rng = np.random.default_rng(0)
    trees, X = ensemble(rng, [2, 2]), rng.normal(size=(N, P))
    assert levels_of(bound_to(trees, X)) is not None
    inner = np.flatnonzero(trees.feature >= 0)
    for name, value in (("threshold", 0.1), ("feature", P - 1)):
        changed = getattr(trees, name).copy()
        changed[inner[-1]] = value  # one of the two nodes of a level
        assert levels_of(bound_to(replace(trees, **{name: changed}), X)) is None
    X[0, trees.feature[0]] = np.nan
    assert levels_of(bound_to(replace(trees, missing_left=~trees.missing_left), X)) is None
