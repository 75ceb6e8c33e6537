"""Whether what tutorials/survival.md says of its numbers is so: run at the place where the page names it."""

assert (y["fstat"].sum(), len(y)) == (215, 500)
ranked = imp.to_frame()
assert ranked["feature"][0] == "age" and imp["age"].pfi > 3 * imp[ranked["feature"][1]].pfi  # nothing near it
assert sum(one.pfi == 0 for one in imp.values()) >= 2
age = [at["age"].pfi for at in imp.outputs.values()]
assert age[-1] > age[0] and imp.outputs[30]["sho"].pfi > imp.outputs[30]["age"].pfi / 2
assert imp.outputs[1095]["sho"].pfi < imp.outputs[1095]["age"].pfi / 4
early, late = (imp.outputs[day].difference("age", "sho") for day in (30, 1095))
assert early.low < 0 < early.high and late.low > 0
assert (y_test["fstat"] & (y_test["lenfol"] <= 30)).sum() == 26 and X_test["sho"].sum() == 8
old = imp["age"].grid > 85
assert imp["age"].pi[old].min() > 2 * imp["age"].pi[~old].max()
assert 0.35 < effect["age"].pd[effect["age"].grid > 85].min() and effect["age"].pd[effect["age"].grid > 85].max() < 0.6
assert (y_test["lenfol"] <= 365)[~y_test["fstat"]].sum() == 0  # no row was censored by then
assert 0.2 < (y_test["fstat"] & (y_test["lenfol"] <= 365)).mean() < 1 / 3
