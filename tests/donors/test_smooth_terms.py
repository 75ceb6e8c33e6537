"""Natural cubic splines: what they can follow, and what they do beyond the data."""

import numpy as np

from losslens.donors.residuals import KNOTS, SmoothTerms

RNG = np.random.default_rng(0)
X = np.column_stack([RNG.normal(size=400), np.arange(400) % 2])


def test_terms_are_straight_beyond_the_data_and_curved_inside():
    terms = SmoothTerms.of(X)
    assert terms(X).shape == (400, KNOTS - 1 + 1)  # a column of two values is a line
    np.testing.assert_allclose(terms(X).mean(axis=0), 0, atol=1e-9)
    far = np.column_stack([np.linspace(5, 9, 9), np.zeros(9)])
    np.testing.assert_allclose(np.diff(terms(far), 2, axis=0), 0, atol=1e-6 * np.abs(terms(far)).max())
    slopes = np.linalg.lstsq(np.column_stack([np.ones(400), terms(X)]), np.sin(2 * X[:, 0]), rcond=None)[0]
    fitted = np.column_stack([np.ones(400), terms(X)]) @ slopes
    assert np.mean((fitted - np.sin(2 * X[:, 0])) ** 2) < 1e-3


def test_many_columns_and_few_rows_are_lines():
    assert SmoothTerms.of(RNG.normal(size=(400, 150)))(np.zeros((2, 150))).shape == (2, 150)
    assert SmoothTerms.of(X[:8])(X).shape == (400, 2)
    assert SmoothTerms.of(X[:, :0])(X[:, :0]).shape == (400, 0)
    assert np.isfinite(SmoothTerms.of(np.ones((40, 2)))(np.ones((40, 2)))).all()
