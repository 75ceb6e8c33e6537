"""Whether what tutorials/correlated.md says of its numbers is so: run at the place where the page names it."""

assert imp.to_frame()["feature"][0] == "chol"
triglycerides = 2.718281828 ** X["log trigl"]
assert (X["ldl"] + X["hdl"] + triglycerides / 5 - X["chol"]).abs().median() < 3  # the sum that the doctor means
assert per_deviation["chol"] < -20 and per_deviation["ldl"] > 10
unreal = imp.extrapolation
assert {"chol", "ldl"} <= set(unreal.warned)
assert unreal["chol"].share > 0.5
assert "recognises the drawn value" in str(within["chol"].conditioning) and within["chol"].caution
assert 2 < len(within["chol"].leaves) < 12 and not residual["chol"].caution
assert "over 99%" in str(residual["chol"].conditioning)
assert imp["chol"].pfi > 2 * within["chol"].pfi > 100 * residual["chol"].pfi
assert residual["chol"].interval()[0] < 0 < residual["chol"].interval()[1]
assert all(residual[name].pfi > 0.6 * imp[name].pfi for name in ("bmi", "bp"))
found = without.test(adjust=None).set_index("feature")
assert found.loc["chol", "p"] > 0.1 and found.loc["bmi", "p"] < 0.01
