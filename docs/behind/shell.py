"""Whether what tutorials/shell.md says of its numbers is so: run at the place where the page names it."""

listing, ranking, worst, words = printed
lines = [line.split() for line in ranking.splitlines()]
assert sum(test) == 1427 and "left out: day" in ranking
holiday = next(line for line in lines if line and line[0] == "holiday")
assert float(holiday[3]) < 0 < float(holiday[5])
assert "hr > 6" in worst and "It depends most on hr" in words and "temp and atemp raise the error" in words
found = next(line for line in worst.splitlines() if line.strip().startswith("hr > 6")).split()
assert float(found[5].replace(",", "")) > 10 * float(found[6]) and float(found[4].strip("(%)")) > 65
