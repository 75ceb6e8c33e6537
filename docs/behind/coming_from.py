"""Whether what coming_from.md says of its numbers is so: run at the place where the page names it."""

import numpy as np

exact = np.array([one.pfi for one in ours.values()])
assert ours.exact and (np.abs(theirs.importances_mean - exact) < 4 * errors + 1e-9).all()
leading = np.argsort(-exact)[:3]
assert all(ours[X.columns[j]].std_error > 2 * errors[j] for j in leading)
curve = partial_dependence(model, X_test, ["bmi"], grid_resolution=1000, method="brute", percentiles=(0, 1))
effect = ll.feature_effect(model, X_test, donors="all")["bmi"]
assert np.allclose(effect.pd, curve["average"][0])
