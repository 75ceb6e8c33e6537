from itertools import pairwise

import numpy as np
import pytest

from losslens.engines.step_sums import sum_steps

SIZE = np.array([7, 1, 4])  # classes of three features


def sums(curves, shown, y, ceiling):
    """Sums of curves (rows, classes) of which only the marked classes are steps."""
    rng, n = np.random.default_rng(1), len(curves)
    weight, base, mass = rng.random(n), rng.random(n), [rng.random(size) for size in SIZE]
    bounds = np.append(0, np.cumsum(SIZE))
    ends = np.cumsum([shown[i, a:b].sum() for i in range(n) for a, b in pairwise(bounds)])
    start = np.append(0, ends).reshape(-1)[np.arange(n)[:, None] * len(SIZE) + np.arange(len(SIZE) + 1)]
    classes = np.concatenate([np.arange(size) for size in SIZE])[np.nonzero(shown)[1]].astype(np.int32)
    prediction = np.ascontiguousarray(curves[shown][:, None])
    change = np.square(prediction[:, 0] - 0.3) if len(y) == 0 else np.zeros(len(prediction))
    at, below = np.append(0, np.cumsum(SIZE + 1)), np.concatenate([np.append(0, np.cumsum(one)) for one in mass])
    local, curve, clipped = np.zeros((n, len(SIZE))), np.zeros((at[-1], 2)), np.zeros(len(SIZE))
    sum_steps(start, classes, change, prediction, y, weight, base, ceiling, below, at, local, curve, clipped)
    return local, np.cumsum(curve, axis=0), clipped, change, weight, base, mass


@pytest.mark.parametrize("ceiling", [np.inf, 1e9])
@pytest.mark.parametrize("own", [True, False])
def test_a_step_at_each_class_or_only_where_curves_jump(own, ceiling):
    """Both are the same curves: local importances are means by mass, the running sums those of rows at each class."""
    rng = np.random.default_rng(0)
    curves = rng.integers(0, 2, (5, SIZE.sum())).astype(float)
    first = np.isin(np.arange(SIZE.sum()), np.append(0, np.cumsum(SIZE)))
    jumps = first | np.insert(curves[:, 1:] != curves[:, :-1], 0, True, axis=1)
    y = rng.random(5) if own else np.zeros(0)
    full = sums(curves, np.ones(curves.shape, bool), y, ceiling)
    few = sums(curves, jumps, y, ceiling)
    *_, change, weight, base, mass = full
    change = change.reshape(curves.shape)
    if own:
        np.testing.assert_allclose(change, np.square(y[:, None] - curves) - base[:, None])
    begin, at = np.append(0, np.cumsum(SIZE)), np.append(0, np.cumsum(SIZE + 1))
    for local, running, clipped, *_ in (full, few):
        assert np.all(clipped == 0)
        for k, size in enumerate(SIZE):
            mine = slice(begin[k], begin[k] + size)
            np.testing.assert_allclose(local[:, k], change[:, mine] @ mass[k], rtol=1e-12)
            before = running[at[k] - 1] if k else 0
            found = running[at[k] : at[k] + size] - before
            np.testing.assert_allclose(found[:, 0], weight @ change[:, mine], rtol=1e-12, atol=1e-12)
            np.testing.assert_allclose(found[:, 1], weight @ curves[:, mine], rtol=1e-12, atol=1e-12)
