"""Whether what index.md says of its numbers is so: run at the place where the page names it."""

ranking = imp.to_frame()["feature"].tolist()
assert ranking[:3] == ["hr", "workingday", "temp"]
assert hr.grid[hr.pi.argmax()] == 17
assert by_days["working days"].pi[hr.grid == 8] > 2 * by_days["days off"].pi[hr.grid == 8]
first = pairs.interaction.to_frame().iloc[0]
assert {first.iloc[0], first.iloc[1]} == {"hr", "workingday"}
assert comparison.difference("hr", "boosting", "a line").low > 0
assert comparison.error_difference("a line", "boosting").low > 0
