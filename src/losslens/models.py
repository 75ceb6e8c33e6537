"""Models: a common interface to estimators, functions, boosters and torch modules.

The rest of the library uses a `Model`: the responses it can give, and for each a function from the user's table to a
checked NumPy array. Objects are recognised by their class names, so that no estimator library is imported.
"""

from __future__ import annotations

import json
import re
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeAlias, get_args

import narwhals as nw
import numpy as np
from numpy.typing import NDArray

from losslens.losses import LARGEST, TOO_LARGE, Response
from losslens.survival_curves import SurvivalCurves
from losslens.tables.arrays import masked_rows
from losslens.tables.frames import Batch, Table, texts_of
from losslens.tables.row_labels import row_name
from losslens.tracebacks import users_code

Kind = Literal["regressor", "classifier", "unknown"]
Array: TypeAlias = NDArray[Any]
Predict: TypeAlias = Callable[[Any], Any]
Responses: TypeAlias = Mapping[Response, Predict]

# The loss to suggest in error messages, by response.
_LOSSES = {"values": "squared_error", "probabilities": "log_loss", "labels": "zero_one", "scores": "hinge"}
_LIKE_PREDICT = ("decision_function", "forecast", "score_samples", "transform")
_ONE_OUTPUT = (
    "pass y with one column for each output (losses such as 'squared_error' are then averaged over outputs), for "
    "curves target= the position of an output, or a function that returns one column"
)
_PROBABILITIES = (
    "explain a probability of each output, with y of as many columns: model=lambda X: np.column_stack([p[:, 1] for p "
    "in classifier.predict_proba(X)]) and loss='squared_error' (the Brier score of each)"
)


@dataclass(frozen=True, eq=False)
class Model:
    """The responses a model can give, each as a function of a table, unchecked.

    `classes` are in the order of the probability columns; functions and torch modules are of unknown kind.
    """

    name: str
    kind: Kind
    classes: Array | None
    responses: Responses
    native: Any
    output: int | None = None  # the one of several outputs that is explained

    def at(self, times: Sequence[float]) -> Model:
        """The model whose outputs are survival at these times, if it is a survival model."""
        if not has_survival_curves(self.native):
            return self
        curves = SurvivalCurves(self.native, np.array(times))
        return replace(self, responses={**self.responses, "outputs": curves})

    def responder(self, response: Response) -> Responder:
        """A function from a table to a new, checked array: (n,), or (n, K) for probabilities, scores and outputs.

        >>> as_model(lambda X: X[:, 0]).responder("values")(np.eye(2))
        array([1., 0.])
        """
        source: Response = "values" if response == "outputs" and "outputs" not in self.responses else response
        if source in self.responses:
            n_classes = None if self.classes is None else len(self.classes)
            return Responder(self.responses[source], response, n_classes)
        advice = "use loss=" + " or ".join(repr(_LOSSES[one]) for one in self.responses)
        if response == "probabilities" and self.kind == "classifier":
            advice += ", or wrap it in CalibratedClassifierCV"
        raise ValueError(f"{self.name} gives {' and '.join(self.responses)}, not {response}; {advice}")


def as_model(model: Any) -> Model:
    """The user's model as a `Model`, or an error that says what is wrong."""
    if isinstance(model, Model):
        return model
    if isinstance(model, type):
        raise TypeError(f"{model.__name__} is a class, not a model; pass a fitted instance of it")
    ancestors = _ancestors(model)
    for ancestor, adapt in _ADAPTERS.items():
        if ancestor in ancestors:
            return adapt(model)
    if hasattr(model, "predict"):  # before callable: Keras models have both, and calling one needs tensors
        return _from_estimator(model)
    if "torch.Module" in ancestors:
        predict = TorchModule(model)
        return _model(model, "unknown", {"values": predict, "probabilities": predict, "scores": predict})
    if callable(model):
        return _model(model, "unknown", dict.fromkeys(get_args(Response), model))
    raise TypeError(
        f"a model is a function of a table or has a method predict, got {type(model).__name__}{_other_methods(model)}"
    )


def _other_methods(model: Any) -> str:
    """What an object without a method predict has instead, as advice."""
    names = [name for name in dir(type(model)) if name.startswith("predict_") or name in _LIKE_PREDICT]
    if not names:
        return ""
    first = min(names, key=lambda name: ("survival" in name or "hazard" in name, name))  # curves, or relative risks
    some = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return (
        f", which has {some}: pass a function of a table that returns one number a row, such as "
        f"model=lambda X: model.{first}(X), and name loss="
    )


def has_survival_curves(model: Any) -> bool:
    """Whether this is a survival model, or a search for one, with scikit-survival's method for curves."""
    return hasattr(getattr(model, "best_estimator_", model), "predict_survival_function")


def takes_texts(model: Any) -> bool:
    """Whether an estimator reads one text a row, not a table: its first step is one of scikit-learn's vectorizers."""
    ancestors = _ancestors(model)
    if "sklearn.Pipeline" in ancestors:
        return takes_texts(model.steps[0][1])
    if "sklearn.FeatureUnion" in ancestors:
        return all(takes_texts(one) for _, one in model.transformer_list)
    if "sklearn.BaseSearchCV" in ancestors:
        return takes_texts(model.estimator)
    return "sklearn._VectorizerMixin" in ancestors


def input_of(model: Any, table: Any) -> Any:
    """What an estimator is given of a table."""
    return texts_of(table) if takes_texts(model) else table


def on_texts(model: Model) -> Model:
    """A model that reads one text a row, as one of tables of a column."""
    return replace(model, responses={name: partial(_predict_texts, one) for name, one in model.responses.items()})


def _predict_texts(predict: Predict, table: Any) -> Any:
    return predict(texts_of(table))


def one_output(model: Model, output: int | str, count: int | None = None) -> Model:
    """One output of several as a model of numbers: the column at a position, or of a name where frames are returned.

    Where their `count` is one, it is what the model predicts.
    """
    if count == 1:
        return model
    predict, native = model.responses["outputs" if "outputs" in model.responses else "values"], model.native
    position = output if isinstance(output, int) else None
    each = native.estimators_ if "sklearn.MultiOutputRegressor" in _ancestors(native) else ()
    if position is not None and 0 <= position < len(each):  # `_column` refuses others
        native, position = each[position], None  # a model for each output
    return replace(
        model, responses={"values": partial(_column, predict, output)}, native=native, output=position, kind="regressor"
    )


def _column(predict: Predict, output: int | str, table: Any) -> Any:
    """One column of what a model returns."""
    returned = predict(table)
    names = getattr(returned, "columns", None)  # of a frame
    if isinstance(output, str):
        if names is None or output not in list(names):
            listing = "its predictions have no names" if names is None else f"they are {', '.join(map(str, names))}"
            raise ValueError(f"target={output!r} is no output of the model: {listing}; pass its position, 0, 1, ...")
        return np.asarray(returned[output])
    array = _as_array(returned)
    if array.ndim != 2 or not 0 <= output < array.shape[1]:
        width = array.shape[1] if array.ndim == 2 else 1
        raise ValueError(f"target={output!r} is no output of the model, which returns {width} for each row")
    return array[:, output]


def _ancestors(model: Any) -> set[str]:
    """The classes of an object by library and name: 'xgboost.Booster', in any module of xgboost."""
    return {f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(model).__mro__}


def _model(native: Any, kind: Kind, responses: Responses, classes: Array | None = None) -> Model:
    inner = native.func if isinstance(native, partial) else native
    return Model(getattr(inner, "__name__", type(inner).__name__), kind, classes, responses, native)


# Arguments of predict that give scores, for libraries without decision_function.
_SCORE_OPTIONS: dict[str, dict[str, Any]] = {
    "catboost.CatBoostClassifier": {"prediction_type": "RawFormulaVal"},
    "lightgbm.LGBMClassifier": {"raw_score": True},
    "xgboost.XGBClassifier": {"output_margin": True},
}


def _from_estimator(model: Any) -> Model:
    classes, declared, ancestors = _classes(model), _declared(model), _ancestors(model)
    has_probabilities = hasattr(model, "predict_proba")
    predicts: tuple[Response, ...] = get_args(Response)  # if undeclared: whatever the loss reads
    kind: Kind = "unknown" if declared or callable(model) else "regressor"
    if classes is not None or declared == "classifier" or (has_probabilities and not declared):
        kind, predicts = "classifier", ("labels",)
    elif declared in ("regressor", "ranker"):
        kind, predicts = "regressor", ("values",)
    elif declared:  # a clusterer, an outlier detector
        predicts = ("values", "labels")
    responses: dict[Response, Predict] = dict.fromkeys(predicts, model.predict)
    if has_probabilities:
        responses["probabilities"] = model.predict_proba
    if hasattr(model, "decision_function"):
        responses["scores"] = model.decision_function
    if options := _score_options(model):
        responses["scores"] = partial(model.predict, **options)
    if ancestors & {"catboost.CatBoost", "lightgbm.LGBMModel", "xgboost.XGBModel"}:
        responses = {response: partial(_predict_readable, predict) for response, predict in responses.items()}
    adapted = _model(model, kind, responses, classes)
    return on_texts(adapted) if takes_texts(model) else adapted


def _score_options(model: Any) -> dict[str, Any]:
    """What predict needs to give scores, where it is the one of such a library, or of a pipeline that ends in it."""
    while getattr(model, "steps", None) and "sklearn.Pipeline" in _ancestors(model):
        model = model.steps[-1][1]
    return next((_SCORE_OPTIONS[ancestor] for ancestor in _ancestors(model) & _SCORE_OPTIONS.keys()), {})


def _classes(model: Any) -> Array | None:
    classes = getattr(model, "classes_", None)
    if isinstance(classes, list) and classes and isinstance(classes[0], np.ndarray):
        raise ValueError(f"{type(model).__name__} is a multi-output classifier; {_PROBABILITIES}")
    # CatBoost's regressors have an empty array.
    return None if classes is None or len(classes) == 0 else np.asarray(classes)


def _declared(model: Any) -> str | None:
    """The declared type of an estimator: 'classifier', 'regressor', 'clusterer', ..., or None."""
    declared = None
    with suppress(AttributeError):  # not scikit-learn's, or older than its tags (1.6)
        declared = model.__sklearn_tags__().estimator_type
    return declared or getattr(model, "_estimator_type", None)


def _predict_readable(predict: Predict, table: Any, **options: Any) -> Any:
    return predict(_readable(table, polars=_reads_polars(predict)), **options)


def _readable(table: Any, *, polars: bool = True) -> Any:
    """The table, as a pandas frame with the same categories where boosting libraries misread it.

    XGBoost 3.2 fails on categories from pyarrow, LightGBM 4.7 on any but pandas' (it can abort the process),
    CatBoost 1.2 on polars categories and on every pyarrow table, and before 1.2.9 on every polars frame.
    """
    library = type(table).__module__.partition(".")[0]
    if library not in ("polars", "pyarrow"):
        return table
    categorical = {nw.Categorical, nw.Enum} & {type(dtype) for dtype in nw.from_native(table).schema.values()}
    return table.to_pandas() if categorical or library == "pyarrow" or not polars else table


def _reads_polars(predict: Any) -> bool:
    owner = getattr(getattr(predict, "func", predict), "__self__", None)
    if "catboost.CatBoost" not in _ancestors(owner):
        return True
    return tuple(int(part) for part in sys.modules["catboost"].__version__.split(".")[:3]) >= (1, 2, 9)


# Boosters: the native models of the libraries, which have an objective and no scikit-learn interface.


def _from_xgboost(booster: Any) -> Model:
    learner = json.loads(_fitted(booster.save_config))["learner"]
    objective, predict = learner["objective"]["name"], partial(_predict_xgboost, booster)
    if not objective.startswith(("binary:", "multi:")):
        return _model(booster, "regressor", {"values": predict})
    predicts: dict[str, Response] = {"hinge": "labels", "softmax": "labels", "logitraw": "scores"}
    response = predicts.get(objective.partition(":")[2], "probabilities")
    classes = np.arange(max(2, int(learner["learner_model_param"]["num_class"])))
    return _model(booster, "classifier", {response: predict, "scores": partial(predict, output_margin=True)}, classes)


def _predict_xgboost(booster: Any, table: Any, **options: Any) -> Any:
    import xgboost

    return booster.predict(xgboost.DMatrix(_readable(table), enable_categorical=True), **options)


def _from_lightgbm(booster: Any) -> Model:
    # From the text: booster.params has the alias that the user wrote ('softmax').
    header = re.search(r"^objective=(\w+)", booster.model_to_string(num_iteration=1), re.MULTILINE)
    predict = partial(_predict_readable, booster.predict)
    raw = partial(predict, raw_score=True)
    if header is None:  # a custom objective: LightGBM has no link function, so its output is raw
        return _model(booster, "unknown", {"values": raw, "scores": raw})
    if header[1] not in ("binary", "multiclass", "multiclassova"):
        return _model(booster, "regressor", {"values": predict})
    classes = np.arange(max(2, booster.num_model_per_iteration()))
    return _model(booster, "classifier", {"probabilities": predict, "scores": raw}, classes)


def _from_catboost(model: Any) -> Model:
    """The base class, whose predict gives raw scores for any loss: each response is requested by name."""
    if hasattr(model, "_estimator_type"):  # CatBoostClassifier, CatBoostRegressor, CatBoostRanker
        return _from_estimator(model)
    loss, classes = _catboost_loss(model), _classes(model)
    types = ("RawFormulaVal", "Exponent", "Class", "Probability")
    raw, exponent, labels, probabilities = (partial(_predict_readable, model.predict, prediction_type=x) for x in types)
    if classes is None:
        # Poisson and Tweedie fit a logarithm; CatBoostRegressor does the same.
        values = exponent if loss.startswith(("Poisson", "Tweedie")) else raw
        return _model(model, "regressor", {"values": values})
    responses: Responses = {"labels": labels, "probabilities": probabilities, "scores": raw}
    return _model(model, "classifier", responses, classes)


def _catboost_loss(model: Any) -> str:
    """Its loss; of `sum_models`, which has no parameters, the one that all summands have in common, "" if none."""
    stored = model.get_metadata()
    if model.is_fitted() and "params" not in stored:
        return str(json.loads(stored.get("loss_function", '{"type": ""}'))["type"])
    return str(_fitted(model.get_all_params)["loss_function"])


_ADAPTERS: dict[str, Callable[[Any], Model]] = {
    "xgboost.Booster": _from_xgboost,
    "lightgbm.Booster": _from_lightgbm,
    "catboost.CatBoost": _from_catboost,
}

# One thread at a time: another could otherwise predict after a module was set back to training mode.
_EVALUATING = threading.Lock()


@dataclass(frozen=True, eq=False)
class TorchModule:
    """A torch module as a function of a table: in evaluation mode, on its own device and in its own precision."""

    module: Any

    def __call__(self, table: Any) -> Any:
        """The module's output, a tensor."""
        return self.output(self.as_rows(np.asarray(table)))

    @property
    def like(self) -> Any:
        """A tensor of the module's device and precision."""
        import torch

        return next((weights for weights in self.module.parameters() if weights.is_floating_point()), torch.empty(0))

    def as_rows(self, array: Array) -> Any:
        """Numbers as a tensor for the module. Always a copy: a module may work in place."""
        import torch

        if array.dtype.kind not in "biuf":
            try:
                array = array.astype(np.float64)  # booleans among numbers give an array of objects
            except (TypeError, ValueError) as error:
                raise ValueError("a torch module needs numbers in every column; encode the others") from error
        like = self.like
        return torch.tensor(np.ascontiguousarray(array), dtype=like.dtype, device=like.device)

    def output(self, rows: Any) -> Any:
        """The output for a tensor of rows; of several heads with one number a row each, one column a head."""
        import torch

        with _EVALUATING, torch.no_grad():
            modes = [(part, part.training) for part in self.module.modules()]
            with suppress(NotImplementedError):  # an exported module has a fixed mode
                self.module.eval()
            try:
                returned = self.module(rows)
            finally:
                for part, training in modes:  # one by one, outermost first: keeps layers in evaluation mode
                    if part.training != training:
                        part.train(training)
            if isinstance(returned, (tuple, list)) and len(returned) > 1:
                one_each = all(hasattr(head, "numel") and head.numel() == len(rows) for head in returned)
                return torch.stack([head.reshape(-1) for head in returned], dim=1) if one_each else returned
            return returned


ROWS_A_CALL = 10_000  # of predictions for an error message

# Model output as a new, checked array: a wrong shape would broadcast, a NaN would spread to every mean.


@dataclass(frozen=True, eq=False)
class Responder:
    """A function from a table to an array of predictions that has been checked."""

    predict: Predict
    response: Response
    n_classes: int | None
    explained: Table | None = None  # the caller's table, whose rows an error is about

    def __call__(self, table: Any) -> Array:
        """The predictions, (n,) or (n, K)."""
        n = table.shape[0]  # before the call: a model may reshape the array
        return self.check(_fitted(self.predict, table), n)

    def with_names(self, table: Any) -> tuple[Array, tuple[str, ...]]:
        """The predictions, and the names of their columns; none where the model returns an array."""
        n, returned = table.shape[0], _fitted(self.predict, table)
        return self.check(returned, n), tuple(map(str, getattr(returned, "columns", ())))

    def check(self, returned: Any, n: int) -> Array:
        """The output of the model for n rows as an array, or an error that says what is wrong."""
        response = self.response
        if isinstance(returned, (tuple, list)) and 1 < len(returned) != n and all(_is_column(x, n) for x in returned):
            came = f"the model returned a {type(returned).__name__} of {len(returned)} arrays, one for each output"
            raise ValueError(f"{came}; pass model=lambda X: np.column_stack(predict(X)), and y with as many columns")
        array = _shaped(_as_array(returned), response, n)
        array = np.array(array) if response == "labels" else _numbers(array)
        columns = array.shape[1] if array.ndim == 2 else 2  # one column stands for two classes
        if response in ("probabilities", "scores") and self.n_classes not in (None, columns):
            raise ValueError(f"the model returned {columns} columns of {response} for {self.n_classes} classes")
        if array.dtype.kind == "f" and array.size and not max(-float(array.min()), float(array.max())) <= LARGEST:
            rows = np.flatnonzero(~np.isfinite(array.reshape(len(array), -1)).all(axis=1))
            if len(rows):
                raise ValueError(f"the model returned NaN or infinity for {self._where(rows, n)}")
            raise ValueError(f"the model returned {array.flat[np.abs(array).argmax()]:g}; {TOO_LARGE}")
        alone = response == "probabilities" and array.ndim == 1  # only of the second class
        return np.column_stack([1 - array, array]) if alone else array

    def _where(self, rows: Array, n: int) -> str:
        """The rows without a finite prediction among n: those of the caller's table, if it has some."""
        table = self.explained
        if table is None:
            return f"{len(rows)} of {n} rows, first for row {rows[0]}"
        own = self._not_finite(table)
        if len(own):
            return f"{len(own):,} of the {table.n:,} rows of X, first for row {row_name(table.row_labels, int(own[0]))}"
        return (
            f"{len(rows):,} of {n:,} rows with values of other rows, though for none of the {table.n:,} rows of X: it "
            "must predict such combinations of values, too"
        )

    def _not_finite(self, table: Table) -> Array:
        """The rows of a table without a finite prediction, by calls as large as those of importances."""
        batch, missing = Batch(table), [np.empty(0, np.intp)]
        for start in range(0, table.n, ROWS_A_CALL):
            some = np.arange(start, min(start + ROWS_A_CALL, table.n))
            array = _numbers(_as_array(_fitted(self.predict, batch.fill(some, [])))).reshape(len(some), -1)
            missing.append(some[~np.isfinite(array).all(axis=1)])
        return np.concatenate(missing)


def _is_column(part: Any, n: int) -> bool:
    return hasattr(part, "shape") and tuple(part.shape) in ((n,), (n, 1))


@users_code
def _fitted(call: Callable[..., Any], *arguments: Any) -> Any:
    """The call; a library's own 'not fitted' exception becomes a ValueError."""
    try:
        return call(*arguments)
    except Exception as error:
        names = {cls.__name__ for cls in type(error).__mro__}
        # XGBoost and CatBoost have one exception for everything, so its text decides.
        texts = {"CatBoostError": "no trained model", "XGBoostError": "num_feature != 0"}
        if "NotFittedError" in names or any(texts[name] in str(error) for name in names & texts.keys()):
            raise ValueError(f"the model is not fitted ({type(error).__name__}); call fit first") from error
        if (text := re.search("could not convert string to float: '(.*)'", str(error), re.DOTALL)) and arguments:
            says = f"column {_column_with(arguments[0], text[1])} of X holds text, such as {text[1]!r}"
            raise ValueError(
                f"{says}, and the model takes numbers: explain a pipeline that encodes it, or leave the column out"
            ) from error
        raise


def _column_with(table: Any, text: str) -> str:
    """The name of the first column that holds a text, in quotes; of an array its position."""
    if isinstance(table, np.ndarray):
        return (
            str(next((j for j in range(table.shape[1]) if text in table[:, j].tolist()), "")) if table.ndim > 1 else ""
        )
    frame = nw.from_native(table, eager_only=True, pass_through=True)
    names = getattr(frame, "columns", ())
    return repr(next((str(name) for name in names if text in map(str, frame[name].to_list())), ""))


def _as_array(returned: Any) -> Array:
    if hasattr(returned, "detach"):  # a torch tensor, maybe on a GPU, with a gradient, or in bfloat16
        returned = returned.detach().cpu()
        returned = returned.float() if "bfloat16" in str(returned.dtype) else returned
    if isinstance(returned, list) and returned and all(np.ndim(part) == 2 for part in returned):
        came = f"the model returned a list of {len(returned)} arrays, one for each output"
        raise ValueError(f"{came}; {_PROBABILITIES}")
    if len(hidden := masked_rows(returned)):
        where = f"{len(hidden)} of {len(returned)} rows, first for row {hidden[0]}"
        raise ValueError(f"the model returned masked values for {where}")
    try:
        return np.asarray(returned)
    except (TypeError, ValueError) as error:  # lists of different lengths
        raise ValueError(f"the model returned a {type(returned).__name__} that is no array; {_ONE_OUTPUT}") from error


def _shaped(array: Array, response: Response, n: int) -> Array:
    if response == "outputs" and array.ndim == 1:  # a single one
        array = array[:, None]
    elif response != "outputs" and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim == 0:
        raise ValueError(f"the model returned a single {type(array.item()).__name__} for {n} rows")
    if array.ndim > (2 if response in ("probabilities", "scores", "outputs") else 1):
        came = f"the model returned an array of shape {array.shape} as {response} of {n} rows"
        raise ValueError(f"{came}; if it is a multi-output model, {_ONE_OUTPUT}")
    if len(array) != n:
        raise ValueError(f"the model returned {len(array)} predictions for {n} rows")
    return array


def _numbers(array: Array) -> Array:
    """A contiguous copy, float32 or float64: the array may share memory with the table or with a reused buffer."""
    if array.dtype.kind in "biuf":
        return np.array(array, dtype=np.float32 if array.dtype == np.float32 else np.float64, order="C")
    # NumPy would read the string '1' as a number.
    if array.dtype.kind == "O" and not any(isinstance(value, (str, bytes)) for value in array.flat):
        with suppress(TypeError, ValueError):
            return array.astype(np.float64)
    came = f"the model returned dtype {array.dtype}, such as {array.flat[0]!r}"
    raise ValueError(f"{came}, where numbers are needed; for labels use loss='zero_one'")
