"""ONNX graphs as models."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from losslens.cli import onnx_files
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


def test_words_without_names_in_the_graph_are_refused(folder, monkeypatch):
    monkeypatch.setattr(onnx_files, "_labels_in_graph", lambda path, k: None)
    assert as_model(read_model(str(folder / "zipmap.onnx"))).classes.tolist() == ["down", "up"]
    with pytest.raises(ValueError, match="which column is which class; convert it with zipmap=True"):
        read_model(str(folder / "matrix.onnx"))


def graph_of_labels(path, offset):
    """Two probabilities, and as label the larger one's column plus an offset."""
    nodes = [
        helper.make_node("Softmax", ["X"], ["probabilities"], axis=1),
        helper.make_node("ArgMax", ["X"], ["place"], axis=1, keepdims=0),
        helper.make_node("Constant", [], ["offset"], value=helper.make_tensor("", TensorProto.INT64, [1], [offset])),
        helper.make_node("Add", ["place", "offset"], ["label"]),
    ]
    outputs = [
        helper.make_tensor_value_info("label", TensorProto.INT64, [None]),
        helper.make_tensor_value_info("probabilities", TensorProto.FLOAT, [None, 2]),
    ]
    inputs = [helper.make_tensor_value_info("X", TensorProto.FLOAT, [None, 2])]
    graph = helper.make_graph(nodes, "labels", inputs, outputs)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), path)


def test_numbers_are_taken_for_classes_only_where_the_labels_agree(tmp_path):
    graph_of_labels(tmp_path / "zero.onnx", 0)
    model = read_model(str(tmp_path / "zero.onnx"))
    assert model.classes_.tolist() == [0, 1]
    assert np.allclose(model.predict_proba(Z).sum(axis=1), 1)
    graph_of_labels(tmp_path / "one.onnx", 1)
    with pytest.raises(ValueError, match="which column is which class"):
        read_model(str(tmp_path / "one.onnx")).predict_proba(Z)


def test_a_matrix_alone_is_whatever_the_loss_takes_it_for(tmp_path):
    inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, [None, 2])]
    outputs = [helper.make_tensor_value_info("P", TensorProto.DOUBLE, [None, "k"])]
    graph = helper.make_graph([helper.make_node("Softmax", ["X"], ["P"], axis=1)], "matrix", inputs, outputs)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    onnx.save(model, tmp_path / "matrix.onnx")
    found = as_model(read_model(str(tmp_path / "matrix.onnx")))
    assert found.kind == "unknown"
    assert found.responder("probabilities")(Z).shape == (len(Z), 2)
