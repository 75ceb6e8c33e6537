"""Files written by earlier versions: they load, and say the numbers that they said when they were written."""

import json
from pathlib import Path

import numpy as np
import pytest

import losslens as ll

FOLDER = Path(__file__).parent / "saved"
EXPECTED = json.loads((FOLDER / "expected.json").read_text())


def same(result, expected):
    for name, value in expected.items():
        got = getattr(result, name)
        got = got() if callable(got) else got
        if np.shape(value) != np.shape(got):  # a local importance or an ICE curve: of one row
            got = got[3]
        np.testing.assert_allclose(got, value, rtol=1e-13, atol=0)


@pytest.mark.parametrize("name", EXPECTED)
def test_a_file_of_an_earlier_version_says_what_it_said(name):
    result, expected = ll.load(FOLDER / f"{name}.losslens"), EXPECTED[name]
    if name == "shapley":
        same(result, expected)
        return
    for feature in result:
        same(result[feature], expected[feature])
