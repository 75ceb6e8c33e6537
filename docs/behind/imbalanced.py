"""Whether what tutorials/imbalanced.md says of its numbers is so: run at the place where the page names it."""

assert 1 / 17 < np.mean(rush == "rush") < 1 / 15  # one in sixteen
assert f"{auc.score:.2f}" == "0.98"
assert model.score(X_test, y_test) - np.mean(y_test == "calm") < 0.05  # nearly as accurate
assert 0.37 < auc["hr"].pfi < 0.43 and 0.02 < auc["workingday"].pfi < 0.06
assert 1.8 < imp["workingday"].ratio < 2.2  # doubles
off, working = (auc_of[label].score_interval() for label in ("day off", "working day"))
assert off[1] < working[0]  # clearly worse
caught = {label: alarm[(kind == label) & (y_test == "rush")].mean() for label in auc_of}
assert caught["working day"] > 0.7 and 1 / 10 < caught["day off"] < 1 / 7
assert loss_of["day off"]["hr"].pfi < loss_of["working day"]["hr"].pfi / 2
assert list(loss_of["day off"].to_frame()["feature"][:3]) == ["hr", "workingday", "temp"]
for name in ("weekday", "windspeed"):
    low, high = loss_of["day off"][name].interval()
    assert loss_of["day off"][name].pfi < 0 < high
assert np.sum(y_test[kind == "day off"] == "rush") == 51
