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


@pytest.mark.parametrize("empty", ["null", "false", '{"tuple": []}'])
def test_fields_that_are_gone_may_be_empty(empty, tmp_path):
    """Most results left them so."""
    with zipfile.ZipFile(FOLDER / "shapley.losslens") as file, zipfile.ZipFile(tmp_path / "old.losslens", "w") as new:
        for part in file.namelist():
            new.writestr(part, file.read(part).replace(b'"sampling": null', f'"sampling": {empty}'.encode()))
    same(ll.load(tmp_path / "old.losslens"), EXPECTED["shapley"])


@pytest.mark.parametrize(
    ("name", "kept", "old"),
    [
        # standard errors of shares without their covariance, which data in files once had
        ("shapley", '"sampling": null', '"sampling": {"tuple": [0.1, 0.2, 0.3]}'),
        # sums over all rows of files, which are counted otherwise now
        ("importances_all", '"whole": null', '"whole": {"object": "Whole", "number": 99, "fields": {}}'),
    ],
)
def test_a_result_that_this_version_has_no_place_for_is_refused_with_its_version(name, kept, old, tmp_path):
    """Not as a damaged file."""
    with zipfile.ZipFile(FOLDER / f"{name}.losslens") as file, zipfile.ZipFile(tmp_path / "old.losslens", "w") as new:
        for part in file.namelist():
            new.writestr(part, file.read(part).replace(kept.encode(), old.encode()))
    told = r"was written by an earlier losslens \(file version \d\), and this one has no (sampling|Whole): compute"
    with pytest.raises(ValueError, match=told):
        ll.load(tmp_path / "old.losslens")
