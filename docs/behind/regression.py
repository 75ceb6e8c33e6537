"""Whether what tutorials/regression.md says of its numbers is so: run at the place where the page names it."""

assert list(imp.to_frame()["feature"][:3]) == ["hr", "workingday", "temp"]
assert imp["hr"].pfi > 3 * imp["workingday"].pfi  # far ahead
assert imp["holiday"].interval()[0] < 0 < imp["holiday"].interval()[1]
assert X_test[["temp", "atemp"]].corr().iloc[0, 1] > 0.95
apart = by_theme.difference("weather", "kind of day")
assert apart.low < 0 < apart.high  # on a par
assert by_theme["weather"].pfi > 2 * max(imp[name].pfi for name in themes["weather"])
assert without.importance[0] > without.error > 0 and without.importance[0] > 4 * without.std_error[0]
clear, misty, rain = imp["weathersit"].pi
assert rain > 4 * max(clear, misty)
assert set(map(str, imp["weathersit"].grid)) == {"clear", "cloudy/misty", "light rain/snow"}
assert (X["weathersit"] == "heavy rain/snow").sum() == 1
assert hours["working day"].pfi > hours["day off"].pfi
assert imp.by(kind)["day off"].to_frame()["feature"][0] == "hr"
independent = ll.feature_importance(model, X_test, y_test)
assert 0.3 < independent["hr"].std_error / imp["hr"].std_error < 0.6  # about half
