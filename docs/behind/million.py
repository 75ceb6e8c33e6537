"""Whether what tutorials/million.md says of its numbers is so: run at the place where the page names it."""

import shutil

assert "1,000,000 rows" in str(imp) and imp.exact
ratios = [small[name].std_error / one.std_error for name, one in imp.items()]
assert 15 < np.median(ratios) < 30
first, second = (list(found.to_frame()["feature"]) for found in (imp, small))
assert first[:5] == second[:5] and sorted(first) == sorted(second)
try:
    imp.given(np.arange(10))
except ValueError:
    pass
else:
    raise AssertionError("given() of data in parts is refused")
shutil.rmtree(folder)
