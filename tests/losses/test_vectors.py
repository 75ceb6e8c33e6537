"""Losses of rows with several predictions."""

import json

import numpy as np
import pandas as pd
import pytest

from losslens import losses
from losslens.losses import from_metadata, pointwise

Y = np.array([[1.0, 2.0], [0.0, 5.0], [2.0, 2.0]])
P = np.array([[1.5, 2.0], [1.0, 1.0], [2.0, 4.0]])
NAMES = ("a", "b")


def test_the_loss_is_the_weighted_mean_of_those_of_outputs():
    loss = losses.outputs("absolute_error", weights=[3, 1]).bound(NAMES)
    np.testing.assert_allclose(loss.by_output(Y, P), abs(Y - P))
    np.testing.assert_allclose(loss(Y, P), abs(Y - P) @ [0.75, 0.25], rtol=1e-15)
    whole, *parts = loss.with_parts(Y, P)
    np.testing.assert_array_equal(whole, loss(Y, P))
    for k, part in enumerate(loss.parts):
        np.testing.assert_array_equal(part(Y, P), parts[k])
    assert loss.title == "absolute error, weighted mean of 2 outputs"
    assert [part.title for part in loss.parts] == ["absolute error of a", "absolute error of b"]


def test_a_loss_for_each_output_and_weights_by_name():
    """Weights by name follow y's columns, and so do losses that were given with them."""
    loss = losses.outputs(["squared_error", "absolute_error"], weights={"b": 1, "a": 3}).bound(NAMES)
    assert loss.weights == (0.75, 0.25)
    assert losses.outputs(weights=pd.Series({"b": 1, "a": 3})).bound(NAMES).weights == (0.75, 0.25)
    assert losses.outputs(weights=pd.Series([3, 1])).bound(NAMES).weights == (0.75, 0.25)
    assert losses.outputs(weights={1: 1, 0: 3}).bound(["0", "1"]).weights == (0.75, 0.25)  # of a frame named by numbers
    np.testing.assert_allclose(loss(Y, P), 0.75 * abs(Y - P)[:, 0] + 0.25 * (Y - P)[:, 1] ** 2)
    assert losses.outputs("squared_error").bound(["p", "q", "r"]).weights == (1 / 3,) * 3


def test_one_target_for_all_outputs():
    loss = losses.outputs([losses.pinball(0.1), losses.pinball(0.9)]).bound([0.1, 0.9])
    expected = np.stack([losses.pinball(0.1)(Y[:, 0], P[:, 0]), losses.pinball(0.9)(Y[:, 0], P[:, 1])], axis=1)
    np.testing.assert_array_equal(loss.by_output(Y[:, 0], P), expected)


@pytest.mark.parametrize("weights", [[-1, 2], [0, 0], ["a", 1], [np.nan, 1], 3])
def test_weights_that_are_none(weights):
    with pytest.raises(ValueError, match="weights has one number from 0 on for each output"):
        losses.outputs("squared_error", weights=weights)


def test_what_does_not_fit_is_said():
    with pytest.raises(ValueError, match="weights has 2 numbers, but there are 3 outputs"):
        losses.outputs("squared_error", weights=[1, 2]).bound("abc")
    with pytest.raises(ValueError, match="the loss has the outputs a, b, but y has p, q"):
        losses.outputs("squared_error", weights={"a": 1, "b": 2}).bound("pq")
    with pytest.raises(ValueError, match="averages losses of numbers such as 'squared_error'"):
        losses.outputs("log_loss")
    loss = losses.outputs("poisson").bound(NAMES)
    with pytest.raises(ValueError, match=r"returned 3 columns of predictions for 2 outputs \(a, b\)"):
        loss.check_prediction(np.ones((4, 3)))
    with pytest.raises(ValueError, match="returned one column of predictions for 2 outputs"):
        loss.check_prediction(np.ones(4))
    with pytest.raises(ValueError, match="output 'b': poisson_deviance needs every prediction to be a number > 0"):
        loss.check_prediction(np.array([[1.0, 0.0]]))
    with pytest.raises(ValueError, match=r"output .a.: poisson_deviance needs every y .* row 1 is -1"):
        loss.check_target(np.array([[1.0, 0.0], [-1.0, 2.0]]))


def test_losses_of_outputs_survive_a_file():
    for loss in (
        losses.outputs("huber", weights=[1, 3]).bound(NAMES),
        losses.outputs([losses.pinball(0.1), "squared_error"]).bound([0.1, 5.0]),
    ):
        for one in (loss, *loss.parts):
            again = from_metadata(json.loads(json.dumps(one.metadata())))
            assert again == one
            np.testing.assert_array_equal(again(Y, P), one(Y, P))
    custom = pointwise(lambda Y, P: (Y - P) ** 2, reads="outputs", name="mine").bound(NAMES)
    again = from_metadata(json.loads(json.dumps(custom.metadata())))
    assert (again.outputs, again.title) == (NAMES, "mine")
    with pytest.raises(ValueError, match="'mine' is a custom function, which files don't hold"):
        again.parts[0](Y, P)


def test_custom_functions_give_one_loss_a_row_or_one_for_each_output():
    of_rows = pointwise(lambda Y, P: ((Y - P) ** 2).sum(axis=1), reads="outputs")
    np.testing.assert_array_equal(of_rows(Y, P), ((Y - P) ** 2).sum(axis=1))
    assert of_rows.parts == ()
    with pytest.raises(ValueError, match="one value for each row and output, here 3 x 2 finite numbers"):
        pointwise(lambda Y, P: Y[:, 0], reads="outputs").bound(NAMES)(Y, P)
