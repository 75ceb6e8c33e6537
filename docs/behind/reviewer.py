"""Whether what tutorials/reviewer.md says of its numbers is so: run at the place where the page names it."""

one, all_fits, left = (found.test().set_index("feature")["p_adjusted"] for found in (imp, refits, without))
assert (one < 0.05).sum() == 1
ranks = imp.ranks()
assert len(X_test) == 133 and (ranks["low"] <= 2).all() and (ranks["high"] >= 9).all()
assert set(all_fits.index[all_fits < 0.05]) == {"bmi", "log trigl"} and all_fits[["bmi", "log trigl"]].max() < 0.005
assert [str(name) for name in imp.to_frame()["feature"][:2]] == ["log trigl", "bmi"]
for name in ("bmi", "log trigl"):
    k = noise.features.index(name)
    assert noise.importance[k] > 3 * noise.null[:, k].max()  # far outside
assert left["bmi"] < 0.05 < left["log trigl"]
