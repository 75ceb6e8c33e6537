"""ONNX graphs as models."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from losslens.cli.model_files import columns_of, read_model
from losslens.models import as_model
from model_folder import REMAINDER, fill, make_table

TABLE = make_table()
Z = TABLE[["a", "b"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("files"))


def test_a_regressor_gives_values(folder):
    model = as_model(read_model(str(folder / "values.onnx")))
    expected = read_model(str(folder / "linear.skops")).predict(Z)
    assert model.kind == "regressor"
    assert np.allclose(model.responder("values")(Z), expected, atol=1e-5)
    assert np.allclose(model.responder("values")(Z.to_numpy()), expected, atol=1e-5)


def test_columns_of_several_kinds_are_inputs_by_name(folder):
    native = read_model(str(folder / "columns.onnx"))
    assert columns_of(native).names == ("a", "b", "size")
    original = read_model(str(folder / "words.skops"), trusted=[REMAINDER])
    expected = original.predict(TABLE[["a", "b", "size"]])
    assert np.allclose(native.predict(TABLE[["a", "b", "size"]]), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["zipmap.onnx", "matrix.onnx"])
def test_a_classifier_gives_labels_and_probabilities(folder, name):
    model = as_model(read_model(str(folder / name)))
    expected = read_model(str(folder / "classes.skops"))
    assert model.kind == "classifier"
    assert model.classes.tolist() == ["down", "up"]
    assert np.allclose(model.responder("probabilities")(Z), expected.predict_proba(Z), atol=1e-5)
    assert np.array_equal(model.responder("labels")(Z), expected.predict(Z))


def graph_of_labels(path):
    """Two probabilities, and as label the larger one's column."""
    nodes = [
        helper.make_node("Softmax", ["X"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["X"], ["label"], axis=1, keepdims=0),
    ]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
    ]
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 2])]
    graph = helper.make_graph(nodes, "labels", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_classes_that_no_node_lists_are_refused(tmp_path):
    graph_of_labels(tmp_path / "zero.onnx")
    with pytest.raises(ValueError, match="which output column is which class; export it with the option zipmap=True"):
        read_model(str(tmp_path / "zero.onnx"))


def test_a_matrix_alone_is_whatever_the_loss_takes_it_for(tmp_path):
    inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, 2])]
    outputs = [helper.make_tensor_value_info("P", TensorProto.DOUBLE, [None, "k"])]
    graph = helper.make_graph([helper.make_node("Softmax", ["X"], ["P"], axis=1)], "matrix", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "matrix.onnx")
    found = as_model(read_model(str(tmp_path / "matrix.onnx")))
    assert found.kind == "unknown"
    assert found.responder("probabilities")(Z).shape == (len(Z), 2)
