"""ONNX files as models: tables in, values or probabilities out, by onnxruntime."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

TYPES = {
    "tensor(float)": np.float32,
    "tensor(double)": np.float64,
    "tensor(float16)": np.float16,
    "tensor(int32)": np.int32,
    "tensor(int64)": np.int64,
    "tensor(bool)": np.bool_,
    "tensor(string)": np.str_,
}


class OnnxModel:
    """A graph: one input for all columns, or one for each column, which then has the column's name."""

    def __init__(self, session: Any) -> None:
        self.session = session
        self.inputs = session.get_inputs()
        for entry in self.inputs:
            if entry.type not in TYPES:
                raise ValueError(f"its input {entry.name!r} is a {entry.type}, not a table of numbers or text")
        self.outputs = [output.name for output in session.get_outputs()]
        if len(self.inputs) > 1:
            wide = [entry.name for entry in self.inputs if len(entry.shape) > 1 and entry.shape[1] != 1]
            if wide:
                raise ValueError(
                    f"its input {wide[0]!r} takes several columns; convert it with one input a column, or one for all"
                )
            self.feature_names_in_ = np.array([entry.name for entry in self.inputs], dtype=object)
            self.n_features_in_: int | None = len(self.inputs)
        else:
            width = self.inputs[0].shape[-1] if len(self.inputs[0].shape) > 1 else None
            self.n_features_in_ = width if isinstance(width, int) else None

    def column_types(self, n: int) -> list[type]:
        """The type of each of n columns."""
        types: list[type] = [TYPES[entry.type] for entry in self.inputs]
        return types * n if len(types) == 1 else types

    def run(self, table: Any) -> list[Any]:
        """Every output for these rows."""
        if len(self.inputs) == 1:
            feeds = {self.inputs[0].name: _typed(np.asarray(table), self.inputs[0].type)}
        else:
            frame = nw.from_native(table, eager_only=True)
            feeds = {}
            for entry in self.inputs:
                column = _typed(frame[entry.name].to_numpy(), entry.type)
                feeds[entry.name] = column.reshape(-1, 1) if len(entry.shape) > 1 else column
        return list(self.session.run(self.outputs, feeds))

    def probe(self) -> list[Any]:
        """Every output for one row of zeros, or of empty text."""
        width, feeds = self.n_features_in_ or 1, {}
        for entry in self.inputs:
            shape = (1, width if len(self.inputs) == 1 else 1) if len(entry.shape) > 1 else (1,)
            words = entry.type == "tensor(string)"
            feeds[entry.name] = np.full(shape, "", object) if words else np.zeros(shape, TYPES[entry.type])
        return list(self.session.run(self.outputs, feeds))


class OnnxRegressor(OnnxModel):
    """A graph with one number a row."""

    _estimator_type = "regressor"

    def predict(self, table: Any) -> NDArray[Any]:
        """One value a row."""
        values = np.asarray(self.run(table)[0])
        return values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values


class OnnxFunction(OnnxModel):
    """A graph with several numbers a row: probabilities or scores, depending on the loss."""

    __name__ = "the ONNX model"

    def __call__(self, table: Any) -> NDArray[Any]:
        """The matrix."""
        return np.asarray(self.run(table)[0])


class OnnxClassifier(OnnxModel):
    """A graph with a label and probabilities for each row."""

    _estimator_type = "classifier"

    def __init__(self, session: Any, path: Path) -> None:
        super().__init__(session)
        probabilities = self.probe()[1]
        if isinstance(probabilities, list):  # ZipMap: a mapping from label to probability for each row
            self.classes_ = np.array(list(probabilities[0]))
        else:
            self.classes_ = _labels_in_graph(path, np.shape(probabilities)[1])

    def predict(self, table: Any) -> NDArray[Any]:
        """One label a row."""
        return np.asarray(self.run(table)[0]).reshape(-1)

    def predict_proba(self, table: Any) -> NDArray[Any]:
        """One column a class."""
        probabilities = self.run(table)[1]
        if isinstance(probabilities, list):
            classes = self.classes_.tolist()
            return np.array([[row[label] for label in classes] for row in probabilities])
        return np.asarray(probabilities)


def read_onnx(path: Path) -> OnnxModel:
    """A classifier where the file gives labels and probabilities; a regressor where it gives one number."""
    import onnxruntime

    quiet = onnxruntime.SessionOptions()
    quiet.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), quiet, providers=["CPUExecutionProvider"])
    outputs = session.get_outputs()
    if len(outputs) >= 2 and outputs[0].type in ("tensor(int64)", "tensor(string)", "tensor(int32)"):
        return OnnxClassifier(session, path)
    shape = outputs[0].shape
    if len(shape) == 2 and shape[1] != 1:  # the width may be unknown before a run
        model = OnnxModel(session)
        if np.shape(model.probe()[0])[-1] > 1:
            return OnnxFunction(session)
    return OnnxRegressor(session)


def _typed(array: NDArray[Any], kind: str) -> NDArray[Any]:
    if kind == "tensor(string)":
        return array.astype(str).astype(object)
    return np.ascontiguousarray(array.astype(TYPES[kind]))


def _labels_in_graph(path: Path, k: int) -> NDArray[Any]:
    """The classifier's own labels, of a node that lists them."""
    import onnx

    for node in onnx.load(str(path), load_external_data=False).graph.node:
        for attribute in node.attribute:
            labels = [*attribute.ints, *(label.decode() for label in attribute.strings)]
            if attribute.name.startswith("classlabels") and len(labels) == k:
                return np.array(labels)
    raise ValueError(
        "the ONNX model doesn't say which output column is which class; export it with the option zipmap=True"
    )
