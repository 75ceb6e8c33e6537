"""Files written by earlier versions: they load, and say the numbers that they said when they were written.

Intervals and p-values are not stored: they are what this version makes of the stored means, with ends that are bent
outward only. So the lower ends of these are Student's, `unbiased - t std_error`.
"""

import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
import scipy

import losslens as ll

FOLDER = Path(__file__).parent / "saved"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())
# Before SciPy 1.17 the quantiles of Student's t have ten digits.
OF_QUANTILES = 1e-13 if tuple(int(part) for part in scipy.__version__.split(".")[:2]) >= (1, 17) else 1e-10


def same(result, expected):
    for name, value in expected.items():
        got = getattr(result, name)
        got = got() if callable(got) else got
        if np.shape(value) != np.shape(got):  # a local importance or an ICE curve: of one row
            got = got[3]
        rtol = OF_QUANTILES if name.endswith("interval") else 1e-13
        np.testing.assert_allclose(got, value, rtol=rtol, atol=0)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_an_earlier_version_says_what_it_said(name):
    result, expected = ll.load(FOLDER / f"{name}.losslens"), EXPECTED[name]
    if name == "shapley":
        same(result, expected)
        return
    for feature in result:
        same(result[feature], expected[feature])


def test_results_on_files_by_the_first_version():
    """Sums over all rows were a field `whole` of each feature then; the numbers are what that version said."""
    loaded = ll.load(FOLDER / "importances_of_files.losslens")
    a, b = loaded["a"], loaded["b"]
    assert (a.whole.n, len(a.whole.rows), len(a.local)) == (3000, 123, 123)
    assert "3,000 rows, read in parts; 123 of them are kept" in repr(loaded)
    numbers = ("pfi", "unbiased", "error", "std_error", "ratio_std_error", "p_value")
    of_a = (8.802275919239701, 8.805210989569558, 4.751277042404705, 0.3676918913926404, 0.08813188134473662)
    of_b = (-0.13332366976991342, -0.1333681258118507, 4.751277042404705, 0.11832645011213073, 0.024361026742677865)
    np.testing.assert_allclose([getattr(a, name) for name in numbers[:-1]], of_a, rtol=1e-12)
    np.testing.assert_allclose([getattr(b, name) for name in numbers], [*of_b, 0.8712694186078426], rtol=1e-12)
    np.testing.assert_allclose(a.interval(), (8.084257157692775, 9.563551644614812), rtol=1e-12)
    np.testing.assert_allclose(a.interval(target="sample"), (8.45400341509982, 9.150548423379583), rtol=1e-12)
    np.testing.assert_allclose(a.ratio_interval(), (2.6855542113873865, 3.031375648204667), rtol=1e-12)
    with pytest.raises(ValueError, match="given needs the values of every row"):
        loaded.given([0, 1])


def test_a_result_that_this_version_has_no_place_for_is_refused_with_its_version(tmp_path):
    """Not as a damaged file: standard errors of shares without their covariance, which data in files once had."""
    with zipfile.ZipFile(FOLDER / "shapley.losslens") as old, zipfile.ZipFile(tmp_path / "old.losslens", "w") as new:
        for name in old.namelist():
            new.writestr(name, old.read(name).replace(b'"sampling": null', b'"sampling": {"tuple": [0.1, 0.2, 0.3]}'))
    with pytest.raises(ValueError, match="was written by an earlier losslens, and this one has no sampling: compute"):
        ll.load(tmp_path / "old.losslens")
