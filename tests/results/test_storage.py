"""Saved results come back as they were; other files are refused; nothing in a file can run."""

import io
import json
import pickle
import stat
import subprocess
import sys
import zipfile
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import losslens as ll
from losslens.donors.designs import Design

RNG = np.random.default_rng(0)
N = 24
X = np.column_stack([RNG.normal(size=(N, 2)), RNG.integers(0, 3, size=N)])
Y = X[:, 0] + X[:, 2] + RNG.normal(size=N)
LOGISTIC = LogisticRegression().fit(X, X[:, 2].astype(int))
KINDS = {
    "words": pd.Series(["b", "a", None, "c"] * 6),
    "categories": pd.Series(pd.Categorical(["v", "u", "v", None] * 6, categories=["v", "u", "t"])),
    "dates": pd.Series(pd.date_range("2020-01-01", periods=N, freq="h")),
    "missing dates": pd.Series([pd.NaT, *pd.date_range("2020-01-01", periods=N - 1)]),
    "zoned dates": pd.Series(pd.date_range("2020-01-01", periods=N, tz="Europe/Berlin")),
    "days": pd.Series([d.date() for d in pd.date_range("2020-01-01", periods=N)], dtype=object),
    "booleans": pd.Series([True, False] * 12),
    "integers": pd.Series(range(N)),
    "nullable": pd.Series([pd.NA, *range(N - 1)], dtype="Int64"),
    "numbers": pd.Series([np.nan, *RNG.normal(size=N - 1)]),
    "mixed": pd.Series([1, "1", 1.5, None] * 6, dtype=object),
    "missing dates among words": pd.Series(["b", "a", pd.NaT] * 8, dtype=object),
    "missing numbers among words": pd.Series(["b", "a", pd.NA] * 8, dtype=object),
}


def model(X):
    return X[:, 0] * X[:, 2]


def explain(model=model, X=X, y=Y, loss="squared_error", **options):
    return ll.feature_importance(model, X, y, **({"loss": loss, "random_state": 0} | options))


def again(result, tmp_path):
    path = tmp_path / "result.losslens"
    result.save(path)
    return ll.load(path)


def same(a, b, arrays=("pfi", "local", "pi", "ici", "weights", "ratio", "clipped", "n_predictions", "rows")):
    assert list(a) == list(b)
    assert type(a) is type(b)
    assert (a.n_predictions, repr(a)) == (b.n_predictions, repr(b))
    for name in a:
        one, two = a[name], b[name]
        assert type(one) is type(two)
        assert (one.name, one.columns, one.design, one.engine, one.exact) == (
            two.name, two.columns, two.design, two.engine, two.exact,
        )  # fmt: skip
        for what in arrays:
            np.testing.assert_array_equal(getattr(one, what), getattr(two, what), err_msg=f"{name}.{what}")
        for g, h in zip(one.values, two.values, strict=True):
            assert g.dtype == h.dtype
            np.testing.assert_array_equal(g, h)


# Round trips.


@pytest.mark.parametrize(
    "design",
    [ll.All(), ll.Derangements(), ll.Grid(5), ll.Grid(5, at="quantiles"), ll.Latin(6), ll.Systematic(6),
     ll.Permutations(6), ll.Derangements(6)],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("more", [{}, {"sample_weight": np.arange(1, N + 1), "groups": np.arange(N) // 2}], ids=str)
def test_every_design_comes_back(design, more, tmp_path):
    result = explain(donors=design, **more)
    loaded = again(result, tmp_path)
    same(result, loaded)
    for name in result:
        assert result[name].std_error == loaded[name].std_error
        np.testing.assert_array_equal(result[name].effect.ice, loaded[name].effect.ice)


def test_a_loaded_result_can_be_asked_further(tmp_path):
    result = explain()
    loaded = again(result, tmp_path)
    rows = np.arange(9)
    same(result.given(rows), loaded.given(rows))
    same(result.subset(rows), loaded.subset(rows))
    same(result.with_loss("absolute_error"), loaded.with_loss("absolute_error"))
    assert loaded["x0"].interval() == result["x0"].interval()
    pd.testing.assert_frame_equal(loaded.to_frame(), result.to_frame())
    same(again(loaded.given(rows), tmp_path), result.given(rows))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_grid_comes_back(kind, tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "k": KINDS[kind]})
    result = ll.feature_importance(lambda t: t["a"].to_numpy(), table, Y, loss="squared_error", features=["k"])
    loaded = again(result, tmp_path)
    same(result, loaded)
    for one, two in zip(result["k"].grid, loaded["k"].grid, strict=True):
        assert type(one) is type(two)
    pd.testing.assert_frame_equal(loaded["k"].to_frame(), result["k"].to_frame())


def test_polars_dates_come_back_and_so_does_the_library(tmp_path):
    table = pl.DataFrame({"a": X[:, 0], "day": list(pd.date_range("2020-01-01", periods=N).date)})
    result = ll.feature_importance(lambda t: t["a"].to_numpy(), table, Y, loss="squared_error")
    loaded = again(result, tmp_path)
    same(result, loaded)
    assert isinstance(loaded.to_frame(), pl.DataFrame)
    assert loaded["day"].to_frame().equals(result["day"].to_frame())


def test_groups_and_pairs_come_back(tmp_path):
    result = explain(features={"both": ["x0", "x2"], "x1": ["x1"]})
    same(result, again(result, tmp_path))
    pair = explain(features=["x0", ("x0", "x2")])
    loaded = again(pair, tmp_path)
    same(pair, loaded, arrays=("pi", "ici"))
    assert loaded["x0", "x2"].pi.shape == (20, 3)


def test_the_extrapolation_of_a_group_comes_back(tmp_path):
    result = explain(features={"both": [0, 1], "one": 2}).extrapolation
    loaded = again(result, tmp_path)
    assert repr(loaded) == repr(result)
    assert loaded["both"].share == result["both"].share
    np.testing.assert_array_equal(loaded["one"].at, result["one"].at)


def test_folds_that_train_on_rows_several_times_come_back(tmp_path):
    """Rows drawn with replacement, more of them than there are, to make up for a rare class, say."""
    rows = np.arange(N)
    folds = [(RNG.choice(rows[rows % 2 != k], 2 * N), rows[rows % 2 == k]) for k in range(2)]
    result = ll.feature_importance_cv(LinearRegression(), X, Y, cv=folds, random_state=0)
    loaded = again(result, tmp_path)
    assert loaded.trained == result.trained == (2 * N, 2 * N)
    assert repr(loaded) == repr(result)


@pytest.mark.parametrize(("verb", "later"), [
    (ll.feature_importance_cv, "without"), (ll.leave_one_covariate_out, "training_variance"),
    (ll.leave_one_covariate_out, "fitting_noise"),
])  # fmt: skip
def test_refits_of_earlier_versions_come_back(verb, later, tmp_path):
    """Their files lack what was added later: the corrected variance, and that over rows alone."""
    verb(LinearRegression(), X, Y, cv=3, random_state=0).save(tmp_path / "new.zip")
    with zipfile.ZipFile(tmp_path / "new.zip") as new, zipfile.ZipFile(tmp_path / "old.zip", "w") as old:
        for name in new.namelist():
            text = new.read(name)
            if name == "result.json":
                content = json.loads(text)
                del content["result"]["fields"][later]
                text = json.dumps(content | {"version": 4}).encode()
            if name != "digest.json":
                old.writestr(name, text)
    loaded = ll.load(tmp_path / "old.zip")
    assert getattr(loaded, later) is None
    assert np.isfinite(loaded.interval()).all()


def test_the_jackknife_over_folds_comes_back(tmp_path):
    result = ll.feature_importance_cv(LinearRegression(), X, Y, cv=3, variance="jackknife", random_state=0)
    loaded = again(result, tmp_path)
    np.testing.assert_array_equal(loaded.without, result.without)
    np.testing.assert_array_equal(loaded.interval(), result.interval())
    assert loaded.variance == "jackknife"
    assert repr(loaded) == repr(result)


MONTHS = pd.period_range("2024-01", periods=N, freq="M")
LABELS = {
    "nanoseconds": pd.DatetimeIndex(np.arange(N) + 10**18, tz="Europe/Paris"),
    "a zone": pd.date_range("2024-10-27", periods=N, freq="30min", tz="Europe/Paris"),  # an hour occurs twice
    "an offset": pd.date_range("2024-10-27", periods=N, freq="h", tz="+01:30"),
    "intervals": pd.interval_range(0, N),
    "decimals": pd.Index([Decimal(k) / 4 for k in range(N)], dtype=object),
    "bytes": pd.Index([bytes([k]) for k in range(N)], dtype=object),
    "two levels": pd.MultiIndex.from_arrays([MONTHS, np.arange(N)]),
    "two levels, one missing": pd.MultiIndex.from_arrays([KINDS["missing dates"], np.arange(N)]),
}


@pytest.mark.parametrize("kind", LABELS)
def test_rows_of_a_loaded_result_are_found_by_their_labels(kind, tmp_path):
    result = explain(lambda t: t["a"].to_numpy(), pd.DataFrame(X, LABELS[kind], ["a", "b", "c"]))
    loaded = again(result, tmp_path)
    for row in (1, 3, 5, 7):
        assert loaded.given([LABELS[kind][row]])["a"].at.tolist() == [row]
    if "levels" not in kind:
        assert list(map(str, loaded["a"].row_labels)) == list(map(str, result["a"].row_labels))
    if kind in ("nanoseconds", "a zone"):
        assert {str(label.tzinfo) for label in loaded["a"].row_labels} == {"Europe/Paris"}


def test_values_of_ones_own_come_back(tmp_path):
    for values in ([0.5, -1.0], np.array([0.5, -1.0]), (0.5, -1.0)):
        result = explain(features="x0", donors=ll.Grid(values=values))
        loaded = again(result, tmp_path)
        assert repr(loaded["x0"].design) == repr(result["x0"].design)
        np.testing.assert_array_equal(loaded["x0"].pi, result["x0"].pi)
        np.testing.assert_array_equal(loaded["x0"].grid, [-1.0, 0.5])


@pytest.mark.parametrize("loss", [ll.losses.pinball(0.9), ll.losses.huber(2.5), "absolute_error"])
def test_losses_come_back_with_their_parameters(loss, tmp_path):
    result = explain(loss=loss)
    loaded = again(result, tmp_path)
    same(result, loaded)
    assert loaded.loss == result.loss


def test_a_loss_of_ones_own_comes_back_as_numbers(tmp_path):
    def cubed(y, f):
        return np.abs(y - f) ** 3

    result = explain(loss=cubed)
    loaded = again(result, tmp_path)
    same(result, loaded)
    assert loaded.loss.title == "cubed"
    same(loaded.with_loss("squared_error"), explain())
    with pytest.raises(ValueError, match="is a custom function, which files don't hold"):
        loaded.loss(Y, Y)


@pytest.mark.parametrize("labels", [["no", "mid", "yes"], [False, True, True], [3, 1, 2]])
def test_classes_come_back(labels, tmp_path):
    y = np.array(labels)[X[:, 2].astype(int)]
    fitted = LogisticRegression().fit(X, y)
    for loss in ("log_loss", "zero_one"):
        result = explain(fitted, y=y, loss=loss)
        loaded = again(result, tmp_path)
        same(result, loaded, arrays=("pfi", "local", "pi", "ici"))
        for label in fitted.classes_:
            np.testing.assert_array_equal(result["x0"].effect_of(label).pd, loaded["x0"].effect_of(label).pd)


def test_streamed_results_come_back(tmp_path):
    features = {f"group {j}": ["x0", "x1"] for j in range(12)}
    result = explain(features=features, memory="80 kB")
    assert not result["group 0"].complete
    same(result, again(result, tmp_path))


def test_effects_come_back(tmp_path):
    for result in (
        ll.feature_effect(model, X, features=["x0", ("x0", "x2")]),
        ll.feature_effect(LOGISTIC, X, target=2, donors=ll.Grid(4)),
    ):
        loaded = again(result, tmp_path)
        same(result, loaded, arrays=("pd", "ice"))
        assert [f.target for f in loaded.values()] == [f.target for f in result.values()]
        np.testing.assert_array_equal(loaded["x0"].given([1]).pd, result["x0"].given([1]).pd)


@pytest.mark.parametrize("design", ["all", ll.Latin(5), ll.Grid(4)], ids=str)
def test_scores_come_back(design, tmp_path):
    result = explain(LinearRegression().fit(X, Y), loss=get_scorer("r2"), donors=design)
    loaded = again(result, tmp_path)
    arrays = {"all": ("pfi", "pi", "score"), ll.Latin(5): ("pfi", "score"), ll.Grid(4): ("pi", "score")}[design]
    same(result, loaded, arrays)
    with pytest.raises(ValueError, match="scorer"):
        loaded["x0"].local  # noqa: B018


def test_what_features_share_is_stored_once(tmp_path):
    explain().save(tmp_path / "r")
    with zipfile.ZipFile(tmp_path / "r") as archive:
        members = [archive.read(name) for name in archive.namelist() if name.endswith(".npy")]
    arrays = [np.lib.format.read_array(io.BytesIO(member)) for member in members]
    assert sum(np.array_equal(array, Y) for array in arrays) == 1
    loaded = ll.load(tmp_path / "r")
    assert loaded["x0"].sample is loaded["x1"].sample


# The file.


def test_nothing_in_the_file_can_run(tmp_path):
    path = tmp_path / "r"
    table = pd.DataFrame({"a": X[:, 0], "k": KINDS["words"]})
    ll.feature_importance(lambda t: t["a"].to_numpy(), table, Y, loss=lambda y, f: np.abs(y - f)).save(path)
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            content = archive.read(name)
            if name.endswith(".json"):
                json.loads(content)
            else:
                np.lib.format.read_array(io.BytesIO(content), allow_pickle=False)


def test_the_description_is_plain_json(tmp_path):
    """NaN and Infinity are no JSON: other readers would stumble over them."""
    explain(donors=ll.Latin(2)).save(tmp_path / "r")

    def refuse(constant):
        raise AssertionError(f"{constant} in the file")

    with zipfile.ZipFile(tmp_path / "r") as archive:
        json.loads(archive.read("result.json"), parse_constant=refuse)


def test_a_file_loads_without_the_libraries_of_the_model(tmp_path):
    path = tmp_path / "r"
    explain(LOGISTIC, y=X[:, 2].astype(int), loss="log_loss").save(path)
    code = (
        "import sys; sys.modules |= dict.fromkeys(('sklearn', 'pandas', 'polars', 'pyarrow', 'torch'))\n"
        f"import losslens as ll; print(repr(ll.load({str(path)!r})))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Importances: increase in log loss" in done.stdout


def test_the_file_replaces_an_older_one_and_can_be_read_by_others(tmp_path):
    path = tmp_path / "r"
    path.write_text("old")
    mode = path.stat().st_mode
    explain().save(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(mode)
    assert [p.name for p in tmp_path.iterdir()] == ["r"]
    same(ll.load(str(path)), explain())


# Files that are none.


def whole(tmp_path):
    explain().save(tmp_path / "whole")
    return (tmp_path / "whole").read_bytes()


@pytest.mark.parametrize("share", [0, 0.01, 0.3, 0.9, 0.999])
def test_a_truncated_file_is_refused(share, tmp_path):
    content = whole(tmp_path)
    path = tmp_path / "cut.losslens"
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"cut\.losslens is not a losslens result, or is damaged"):
        ll.load(path)


@pytest.mark.parametrize("at", [0.2, 0.4, 0.6, 0.8])
def test_a_damaged_file_is_refused(at, tmp_path):
    content = bytearray(whole(tmp_path))
    start = int(at * len(content))
    content[start : start + 64] = bytes(64)
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(ValueError, match="bad is not a losslens result, or is damaged"):
        ll.load(tmp_path / "bad")


class Trap:
    def __reduce__(self):
        return (print, ("this must not run",))


def zipped(path, **members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name.replace("_", "."), content)


def write_foreign(kind, path):
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, np.array([Trap()], dtype=object), allow_pickle=True)
    description = {"format": "losslens result", "version": 1}
    trap = description | {"result": {"array": "a0"}}
    {
        "text": lambda: path.write_text("feature,importance\nx0,1\n"),
        "pickle": lambda: path.write_bytes(pickle.dumps(Trap())),
        "zip": lambda: zipped(path, readme_txt="hello"),
        "other json": lambda: zipped(path, result_json='{"a": 1}'),
        "a list": lambda: zipped(path, result_json="[1, 2]"),
        "no json": lambda: zipped(path, result_json="losslens"),
        "no result": lambda: zipped(path, result_json=json.dumps(description)),
        "unknown object": lambda: zipped(
            path, result_json=json.dumps(description | {"result": {"object": "os", "number": 0, "fields": {}}})
        ),
        "a pickle inside": lambda: zipped(path, result_json=json.dumps(trap), a0_npy=buffer.getvalue()),
        "an array that is none": lambda: zipped(path, result_json=json.dumps(trap), a0_npy=b"nonsense"),
        "a missing array": lambda: zipped(path, result_json=json.dumps(trap)),
        "a plain number": lambda: zipped(path, result_json=json.dumps(description | {"result": 3})),
    }[kind]()


@pytest.mark.parametrize(
    "kind",
    ["text", "pickle", "zip", "other json", "a list", "no json", "no result", "unknown object", "a pickle inside",
     "an array that is none", "a missing array", "a plain number"],
)  # fmt: skip
def test_a_foreign_file_is_refused_and_nothing_in_it_runs(kind, tmp_path, capsys):
    path = tmp_path / "foreign"
    write_foreign(kind, path)
    with pytest.raises(ValueError, match="foreign is not a losslens result, or is damaged"):
        ll.load(path)
    assert "must not run" not in capsys.readouterr().out


def test_a_file_of_a_newer_version_says_so(tmp_path):
    zipped(tmp_path / "new", result_json=json.dumps({"format": "losslens result", "version": 99, "result": {}}))
    with pytest.raises(ValueError, match="newer losslens"):
        ll.load(tmp_path / "new")


def test_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        ll.load(tmp_path / "nowhere")


# Saving that fails.


def test_a_folder_that_is_not_there_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        explain().save(tmp_path / "nowhere" / "r")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("old", [False, True])
def test_a_write_that_fails_leaves_nothing_behind_and_the_older_file_alone(old, tmp_path, monkeypatch):
    path = tmp_path / "r"
    if old:
        path.write_text("old")

    def full(*args, **options):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np.lib.format, "write_array", full)
    with pytest.raises(OSError, match="No space left"):
        explain().save(path)
    assert [p.name for p in tmp_path.iterdir()] == (["r"] if old else [])
    assert not old or path.read_text() == "old"


def test_a_design_of_the_users_own_is_refused_and_not_written_as_text(tmp_path):
    class Neighbours(Design):
        m = 2

        def lend(self, n, rng):
            return (np.arange(n)[:, None] + [1, 2]) % n

    X = np.random.default_rng(0).normal(size=(20, 2))
    result = ll.feature_importance(lambda Z: Z[:, 0], X, X[:, 0], loss="squared_error", donors=Neighbours())
    with pytest.raises(TypeError, match="can't be saved: loading it would need your code"):
        result.save(tmp_path / "own.losslens")
    assert not list(tmp_path.iterdir())
