"""Models from files: read as what they are, and nothing runs that wasn't asked for."""

import functools
import operator
import os
import pickle
import subprocess
import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils._testing import assert_run_python_script_without_output

from losslens.cli import model_files
from losslens.cli.model_files import columns_of, read_model
from losslens.models import as_model
from model_folder import TREE, fill, make_table

TABLE = make_table()
Z = TABLE[["a", "b"]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("files"))


@pytest.mark.parametrize("name", ["linear.skops", "linear.joblib", "linear.pkl"])
def test_estimators_come_back(folder, name):
    model = read_model(str(folder / name), trust=True)
    assert np.abs(model.predict(Z) - TABLE["y"]).mean() < 0.6
    assert columns_of(model).names == ("a", "b")


@pytest.mark.parametrize("name", ["xgb.json", "xgb.ubj", "xgb.model", "unordered.txt", "ordered.lgb", "lgb.model"])
def test_boosters_come_back(folder, name):
    model = read_model(str(folder / name))
    assert columns_of(model).names == ("a", "b", "size")
    predicted = as_model(model).responder("values")(TABLE[["a", "b", "size"]])
    assert np.abs(predicted - TABLE["y"]).mean() < 0.8


def test_a_nameless_model_says_how_many_columns_it_takes(folder):
    assert columns_of(read_model(str(folder / "nameless.skops"))) == model_files.Columns(None, 2)
    assert columns_of(lambda X: X) == model_files.Columns(None, None)


class Bomb:
    """A pickle that leaves a mark when it is read."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".PKL"])
def test_a_pickle_does_not_run_without_trust(tmp_path, suffix):
    mark, path = tmp_path / "ran", tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps(Bomb(mark)))
    with pytest.raises(ValueError, match=r"runs any code in it\. Add --trust"):
        read_model(str(path), trusted=["builtins.open"])
    assert not mark.exists()


def test_skops_types_are_trusted_by_name_alone(folder):
    path = str(folder / "tree.skops")
    for options in ({}, {"trust": True}, {"trusted": ["all"]}, {"trusted": ["sklearn.tree"]}):
        with pytest.raises(ValueError, match=f"if you trust them, add --trust-type {TREE}$"):
            read_model(path, **options)
    assert hasattr(read_model(path, trusted=[TREE, "another.Type"]), "predict")


def step(function):
    return make_pipeline(FunctionTransformer(function), LinearRegression()).fit(Z.to_numpy(), TABLE["y"])


def scaled(X):
    return X


# Fitted with a harmless function, which is then replaced: fitting would call it.
@pytest.mark.parametrize(
    ("function", "name"),
    [
        (eval, "builtins.eval"),
        (os.system, "system"),
        (subprocess.check_output, "subprocess.check_output"),
        (functools.partial(os.system, "true"), "functools.partial"),
        (operator.methodcaller("unlink"), "operator.methodcaller"),
        (assert_run_python_script_without_output, "assert_run_python_script"),
        (scaled, "scaled"),
    ],
)
def test_trust_is_not_suggested_for_what_may_run_commands(tmp_path, function, name):
    model = step(None)
    model[0].func = function
    import skops.io  # slow to import, by each worker that collects

    skops.io.dump(model, tmp_path / "m.skops")
    with pytest.raises(ValueError, match=f"asks for .*{name}.*may run commands; don't use the file") as told:
        read_model(str(tmp_path / "m.skops"))
    assert "--trust-type" not in str(told.value)


@pytest.mark.parametrize(
    ("name", "known"),
    [
        (TREE, True),
        ("sklearn.gaussian_process.kernels.RBF", True),
        ("xgboost.core.Booster", True),
        ("collections.OrderedDict", True),
        ("sklearn.metrics.pairwise.rbf_kernel", False),
        ("sklearn.nothing.Like", False),
        ("sklearn.utils._testing.TempMemmap", False),
        ("sklearnx.tree.Tree", False),
        ("subprocess.Popen", False),
        ("Popen", False),
        ("", False),
    ],
)
def test_only_classes_of_libraries_of_estimators_are_suggested(name, known):
    assert model_files._is_estimator_class(name) is known


@pytest.mark.parametrize(
    "name", ["bad.skops", "bad.onnx", "bad.json", "bad.ubj", "bad.txt", "bad.lgb", "bad.model", "bad.pkl", "bad.joblib"]
)
@pytest.mark.parametrize("content", [b"", b"neither fish nor flesh"])
def test_unreadable_models_are_told_in_one_line(tmp_path, capfd, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"could not read .* as an? ") as told:
        read_model(str(path), trust=True)
    assert "\n" not in str(told.value)
    assert capfd.readouterr().out == ""


@pytest.mark.parametrize("name", ["xgb.ubj", "xgb.json", "unordered.txt", "linear.skops", "values.onnx"])
@pytest.mark.parametrize("part", [0.02, 0.5, 0.99])
def test_half_a_file_is_told(folder, tmp_path, name, part):
    content = (folder / name).read_bytes()
    path = tmp_path / name
    path.write_bytes(content[: int(len(content) * part)])
    if name == "unordered.txt" and part > 0.9:
        return  # what follows the trees there is not needed
    with pytest.raises(ValueError, match="could not read"):
        read_model(str(path))


def test_paths_and_suffixes(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        read_model(str(tmp_path / "m.skops"))
    with pytest.raises(IsADirectoryError, match="is a folder"):
        read_model(str(tmp_path))
    (tmp_path / "model.h5").write_text("")
    with pytest.raises(ValueError, match="unknown kind of model"):
        read_model(str(tmp_path / "model.h5"))


def test_a_library_that_is_missing_is_named(folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ValueError, match=r'needs skops: pip install "losslens\[safe\]"'):
        read_model(str(folder / "linear.skops"))


def test_python_objects_by_name(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", list(sys.path))
    assert np.array_equal(read_model("mine:slope")(Z), 2 * Z["a"])
    (folder / "broken.py").write_text("1 / 0")
    (folder / "needy.py").write_text("import nothing_like_it")
    for name, message in [
        ("mine:nothing", "the module mine has no nothing"),
        ("yours:model", "there is no module yours"),
        ("broken:model", "importing broken failed: ZeroDivisionError"),
        ("needy:model", "the module needy needs nothing_like_it"),
    ]:
        with pytest.raises(ValueError, match=message):
            read_model(name)
