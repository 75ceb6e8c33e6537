"""Whether what tutorials/release.md says of its numbers is so: run at the place where the page names it."""

apart, found = both.error_difference("new", "old"), both.errors().set_index("model")
assert 0.4 < found.loc["new", "error"] / found.loc["old", "error"] < 0.6  # half the error
widths = found["high"] - found["low"]
assert apart.high < 0 and apart.high - apart.low < (widths**2).sum() ** 0.5  # paired
assert all(line["new"] < line["old"] for line in lines)
gains = {str(line["group"]): line["old"] - line["new"] for line in lines}
assert max(gains, key=gains.get) == "day off"
assert table.loc["workingday", "low"] > 20 and abs(both.importances["old"]["workingday"].pfi) < 1
assert len(table) == 11
assert abs(calendar / both.importances["old"].error - 1) < 0.1  # about as bad
