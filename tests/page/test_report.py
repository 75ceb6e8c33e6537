"""The report as data: every number in the dict against the library's, and subgroups as the page works them out."""

import json
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.svm import SVR

import losslens as ll
from losslens.page import cells
from losslens.page.labels import labels
from losslens.page.report import Report

RNG = np.random.default_rng(0)
N = 80
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N).round(1),
        "rooms": RNG.integers(1, 6, N),
        "town": RNG.choice(["harbour", "hills", 'the "old" <b>town</b>'], N),
        "day": pd.Timestamp("2024-03-01") + pd.to_timedelta(RNG.integers(0, 30, N), unit="D"),
    }
)
FRAME.loc[3, "size"] = np.nan


def model(F):
    return F["size"].fillna(1).to_numpy() * F["rooms"].to_numpy() + (F["town"] == "hills").to_numpy()


Y = model(FRAME) + RNG.normal(size=N)


def report(**options):
    options = {"loss": "squared_error", "random_state": 0} | options
    return ll.report(model, options.pop("X", FRAME), options.pop("y", Y), **options)


@pytest.fixture(scope="module")
def page():
    return report(by="town").summary


@pytest.fixture(scope="module")
def imp():
    return ll.feature_importance(model, FRAME, Y, loss="squared_error")


def named(page):
    return {feature["name"]: feature for feature in page["features"]}


# Numbers.


def test_the_numbers_are_the_librarys(page, imp):
    shares = ll.shapley_importance(model, FRAME, Y, loss="squared_error")
    p = imp.test().set_index("feature")["p_adjusted"]
    assert [f["name"] for f in page["features"]] == [f.name for f in imp._ranked]
    for name, feature in named(page).items():
        entry, one, j = feature["models"][0], imp[name], shares.features.index(name)
        assert entry["pfi"] == pytest.approx(one.pfi)
        assert (entry["low"], entry["high"]) == pytest.approx(one.interval())
        assert entry["p"] == pytest.approx(p[name])
        assert entry["sfimp"] == pytest.approx(shares.sfimp[j])
        assert entry["share"] == pytest.approx(shares.share[j])
        np.testing.assert_allclose(entry["local"], one.local)
        np.testing.assert_allclose(entry["pi"], one.pi)
        np.testing.assert_allclose(entry["pd"], one.effect.pd)
        np.testing.assert_allclose(feature["weights"], one.weights)
        np.testing.assert_allclose(entry["cells"]["values"], one.ici, rtol=1e-6, atol=1e-6)
        assert (entry["pi_low"] <= entry["pi"]).all()
        assert (entry["pi_high"] >= entry["pi"]).all()


def test_kinds_of_features(page):
    kinds = {name: feature["kind"] for name, feature in named(page).items()}
    assert kinds == {"size": "number", "rooms": "integer", "town": "words", "day": "date"}
    size = named(page)["size"]
    assert np.isnan(size["values"][-1])
    assert size["labels"][-1] == "missing"
    assert named(page)["day"]["values"][0] == pd.Timestamp(FRAME["day"].min()).value // 10**6


def test_every_row_stands_at_its_own_value(page):
    for name, feature in named(page).items():
        own = np.asarray(feature["labels"])[feature["own"]]
        expected = labels(FRAME[name].to_numpy())
        assert own.tolist() == expected


def test_the_table_has_the_rows(page):
    table = page["table"]
    assert [c["name"] for c in table["columns"]] == list(FRAME.columns)
    np.testing.assert_array_equal(table["columns"][0]["values"], FRAME["size"])
    assert table["columns"][2]["values"] == FRAME["town"].tolist()
    np.testing.assert_array_equal(table["y"], Y)
    np.testing.assert_allclose(table["models"][0]["prediction"], model(FRAME))
    np.testing.assert_allclose(table["models"][0]["loss"], (Y - model(FRAME)) ** 2)
    assert page["by"] == "town"


# Subgroups, by the formulas of the page.


def given(entry, weight, group):
    share = weight * group / weight[group].sum()
    return share @ entry["local"], share @ entry["cells"]["values"].astype(float)


def test_given_and_subset_are_the_librarys(page, imp):
    group = (FRAME["rooms"] > 2).to_numpy()
    weight = page["table"]["weight"]
    for name, feature in named(page).items():
        entry = feature["models"][0]
        pfi, pi = given(entry, weight, group)
        assert pfi == pytest.approx(imp[name].given(group).pfi, rel=1e-9, abs=1e-12)
        np.testing.assert_allclose(pi, imp[name].given(group).pi, rtol=1e-5, atol=1e-5)
        donors = np.bincount(feature["own"][group], minlength=len(pi)) / group.sum()
        assert pi @ donors == pytest.approx(imp[name].subset(group).pfi, rel=1e-5, abs=1e-6)


def wide(n=1200, p=3):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(n, p))
    y = X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + 0.3 * rng.normal(size=n)
    forest = RandomForestRegressor(30, min_samples_leaf=5, random_state=0, n_jobs=1).fit(X, y)
    return forest, X, y


@pytest.fixture(scope="module")
def large():
    forest, X, y = wide()
    page = ll.report(forest, X, y, shapley=False, random_state=0).summary
    return page, ll.feature_importance(forest, X, y), X


def test_many_cells_are_in_the_page_as_a_product(large):
    page, imp, _ = large
    for feature in page["features"]:
        entry, one = feature["models"][0], imp[feature["name"]]
        found = entry["cells"]
        assert found["kind"] == "low rank"
        assert found["row"].dtype == np.int8
        assert found["row"].shape == (1200, 8)
        assert len(feature["labels"]) == len(entry["pi"]) <= 128
        np.testing.assert_allclose(entry["pi"] @ feature["weights"], one.pfi, rtol=1e-9)
        assert found["typical"] <= found["error"]
        assert found["error_times_n"] / 600 < 0.04 * one.pfi  # for half of the rows


def binned(feature, given, X, curve="pi"):
    """A curve of a group of rows as a mean over the page's bins of donors."""
    own = dict(zip(X[:, int(feature["name"][1:])].tolist(), feature["own"].tolist(), strict=True))
    place = np.array([own[value] for value in given.grid.tolist()])
    mass = np.bincount(place, given.weights)
    return np.bincount(place, given.weights * getattr(given, curve)) / mass


@pytest.mark.parametrize("column", [0, 1, 2])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_the_stated_errors_of_a_subgroup_hold(large, column, share):
    page, imp, X = large
    order = np.argsort(np.argsort(X[:, column])) / len(X)
    for group in (order < share, order > 1 - share, np.abs(order - 0.4) < share / 2):
        for feature in page["features"]:
            entry, weight = feature["models"][0], page["table"]["weight"]
            share_of = weight * group / weight[group].sum()
            donors = np.bincount(feature["own"], share_of, len(entry["pi"]))
            cells = entry["cells"]
            product = (share_of @ (cells["row"] * cells["scale"])) @ cells["column"]
            curve = share_of @ entry["local"] + entry["pi"] - entry["pfi"] + product
            one = imp[feature["name"]]
            assert abs(curve @ donors - one.subset(group).pfi) <= cells["error_times_n"] / group.sum()
            given = one.given(group)
            assert abs(curve @ feature["weights"] - given.pfi) < 1e-3 * max(one.pfi, 0.1)
            assert np.abs(curve - binned(feature, given, X)).max() <= cells["pi_error_times_root_n"] / np.sqrt(
                group.sum()
            )
            assert share_of @ entry["local"] == pytest.approx(
                imp[feature["name"]].given(group).pfi, rel=1e-9, abs=1e-12
            )


def test_pd_of_any_subgroup_is_within_the_stated_error(large):
    """Groups by two columns, of 20 rows to half of them, also such as were not measured."""
    page, imp, X = large
    rng = np.random.default_rng(5)
    for _ in range(20):
        j, k = rng.choice(3, 2, replace=False)
        low, high = rng.normal(size=2)
        group = (X[:, j] > low) & (X[:, k] < high)
        if group.sum() < 20:
            continue
        for feature in page["features"]:
            entry, share = feature["models"][0], group / group.sum()
            ice = entry["ice"]
            product = (share @ (ice["row"] * ice["scale"])) @ ice["column"]
            curve = share @ ice["level"] + entry["pd"] - ice["mean"] + product
            wanted = binned(feature, imp[feature["name"]].effect.given(group), X, "pd")
            assert ice["measured"][0][0] < 20
            stated = next(error for size, error in reversed(ice["measured"]) if size <= group.sum())
            assert np.abs(curve - wanted).max() <= stated < 0.4 * np.ptp(entry["pd"]) + 0.05


def test_streamed_features_are_explained_again_by_themselves():
    forest, X, y = wide(600)
    whole = ll.report(forest, X, y, shapley=False, random_state=0).summary
    little = ll.report(forest, X, y, shapley=False, random_state=0, memory="10 MiB").summary
    for one, other in zip(whole["features"], little["features"], strict=True):
        assert other["models"][0]["cells"] is not None
        np.testing.assert_allclose(other["models"][0]["pi"], one["models"][0]["pi"])


def test_systematic_donors_have_bins_of_ranks():
    rng = np.random.default_rng(2)
    X = rng.normal(size=(1500, 2))
    y = X[:, 0] + rng.normal(size=1500)
    machine = lambda X: np.tanh(X[:, 0]) + 0.1 * X[:, 1] ** 2  # noqa: E731
    page = ll.report(machine, X, y, loss="squared_error", shapley=False, random_state=0).summary
    feature = named(page)["x0"]
    entry = feature["models"][0]
    assert not entry["exact"]
    assert entry["cells"] is not None
    order = np.argsort(X[:, 0])
    assert (np.diff(feature["own"][order]) >= 0).all()  # bins follow the values
    one = ll.feature_importance(machine, X, y, loss="squared_error", donors="all", features="x0")["x0"]
    group = X[:, 1] > 0
    share = group / group.sum()
    donors = np.bincount(feature["own"], share, len(entry["pi"]))
    assert entry["cells"]["kind"] == "whole"
    found = (share @ entry["cells"]["values"]) @ donors
    assert found == pytest.approx(one.subset(group).pfi, rel=0.05)


# Words.


def test_the_page_says_how_good_the_model_is_and_what_carries_it(page, imp):
    said = page["words"]
    assert f"root mean squared error of model is {np.sqrt(imp.error):.2f}" in said["headline"]
    assert "size" in " ".join(said["sentences"])
    assert any("exact over all pairs" in text for text in said["computed"])
    assert any("80 rows are few" in text for text in said["careful"])


def test_features_that_go_together_are_named():
    X = np.random.default_rng(0).normal(size=(120, 2))
    X = np.column_stack([X, X[:, 0] + 0.1 * X[:, 1]])
    said = ll.report(lambda X: X[:, 0], X, X[:, 0], loss="squared_error", shapley=False).summary["words"]["careful"]
    assert any("Shuffled together, x0 and x2 raise the error to" in text for text in said)


# Rows, models, kinds.


def test_a_large_table_is_sampled_and_the_page_says_so():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50_000, 2))
    page = ll.report(LinearRegression().fit(X, X[:, 0]), X, X[:, 0] + 1, rows=400, random_state=0).summary
    assert (page["n"], page["n_given"]) == (400, 50_000)
    index = page["table"]["index"]
    np.testing.assert_array_equal(page["table"]["y"], X[index, 0] + 1)
    assert any("random sample of 400 of the 50,000 rows" in text for text in page["words"]["computed"])
    again = ll.report(LinearRegression().fit(X, X[:, 0]), X, X[:, 0] + 1, rows=400, random_state=0).summary
    np.testing.assert_array_equal(again["table"]["index"], index)


def test_further_models_stand_beside_the_first():
    found = report(models={"flat": lambda F: np.zeros(len(F)), "half": lambda F: model(F) / 2}).summary
    assert [m["name"] for m in found["models"]] == ["this model", "flat", "half"]
    size = named(found)["size"]
    assert len(size["models"]) == len(found["table"]["models"]) == 3
    assert size["models"][1]["pfi"] == 0
    np.testing.assert_allclose(
        size["models"][2]["pi"],
        ll.feature_importance(lambda F: model(F) / 2, FRAME, Y, loss="squared_error", features="size")["size"].pi,
    )


def test_groups_of_columns_have_a_number_and_no_curve():
    found = named(report(features={"house": ["size", "rooms"], "town": ["town"]}).summary)
    house = found["house"]
    assert house["kind"] == "group"
    assert house["values"] is house["own"] is None
    assert house["models"][0]["pi"] is house["models"][0]["cells"] is None
    assert len(house["models"][0]["local"]) == N


@pytest.mark.parametrize("library", ["polars", "numpy"])
def test_other_tables(library):
    numbers = FRAME[["size", "rooms"]].fillna(0)
    table = pl.from_pandas(numbers) if library == "polars" else numbers.to_numpy(float)

    def predict(table):
        return np.asarray(table, float)[:, 0] if library == "numpy" else table["size"].to_numpy()

    found = ll.report(predict, table, Y, loss="squared_error", by=np.where(Y > 0, "up", "down")).summary
    assert found["by"] == "group"
    assert found["table"]["columns"][-1] == {
        "name": "group",
        "kind": "words",
        "values": np.where(Y > 0, "up", "down").tolist(),
    }


def test_a_classifier_names_its_classes_and_shows_one():
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    fitted = LogisticRegression().fit(X, y)
    page = ll.report(fitted, X, pd.Series(y, name="bought"), models={"reversed": Backwards(fitted)}).summary
    assert page["target"] == {
        "name": "bought", "reads": "probabilities", "classes": ["no", "yes"], "shown": 1, "drawn": [0, 1]
    }  # fmt: skip
    assert page["table"]["y"] == y.tolist()
    for entry in page["table"]["models"]:  # of the same class, wherever the model has it
        np.testing.assert_allclose(entry["prediction"], fitted.predict_proba(X)[:, 1])
        assert entry["label"] == fitted.predict(X).tolist()
    imp = ll.feature_importance(fitted, X, y)
    for feature in page["features"]:
        for entry in feature["models"]:
            np.testing.assert_allclose(entry["pd"], imp[feature["name"]].effect_of("yes").pd)
            np.testing.assert_allclose(entry["pd_classes"][0], 1 - entry["pd"])


class Backwards:
    """The same model with its classes in another order."""

    def __init__(self, fitted):
        self.fitted, self.classes_ = fitted, fitted.classes_[::-1]

    def predict(self, X):
        return self.fitted.predict(X)

    def predict_proba(self, X):
        return self.fitted.predict_proba(X)[:, ::-1]


def test_every_class_has_a_curve_and_the_most_frequent_one_is_shown(monkeypatch):
    monkeypatch.setattr("losslens.page.target.MOST_CLASSES", 2)
    X = np.random.default_rng(0).normal(size=(90, 2))
    y = np.digitize(X[:, 0], [-0.2, 1.0])
    fitted = LogisticRegression().fit(X, y)
    page = ll.report(fitted, X, y, shapley=False).summary
    often = int(np.bincount(y).argmax())
    drawn = sorted(np.argsort(-np.bincount(y))[:2].tolist())
    assert page["target"] | {"classes": ["0", "1", "2"], "shown": often, "drawn": drawn} == page["target"]
    one = ll.feature_importance(fitted, X, y)["x0"]
    entry = named(page)["x0"]["models"][0]
    np.testing.assert_allclose(entry["pd"], one.effect_of(often).pd)
    np.testing.assert_allclose(entry["ice"]["values"], one.effect_of(often).ice, rtol=1e-6)
    for k in range(3):
        if k in drawn:
            np.testing.assert_allclose(entry["pd_classes"][k], one.effect_of(k).pd)
        else:
            assert entry["pd_classes"][k] is None
    np.testing.assert_allclose(page["table"]["models"][0]["prediction"], fitted.predict_proba(X)[:, often])
    assert page["table"]["models"][0]["label"] == [str(k) for k in fitted.predict(X)]


@pytest.mark.parametrize("loss", ["zero_one", "hinge"])
def test_labels_and_scores_are_called_so(loss):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.where(X[:, 0] > 0, "yes", "no")
    fitted = LogisticRegression().fit(X, y)
    page = ll.report(fitted, X, y, loss=loss, shapley=False).summary
    (entry,) = page["table"]["models"]
    assert page["target"]["reads"] == {"zero_one": "labels", "hinge": "scores"}[loss]
    assert entry["label"] == fitted.predict(X).tolist()
    if loss == "zero_one":
        assert entry["prediction"] is None
    else:
        np.testing.assert_allclose(entry["prediction"], fitted.decision_function(X))


@pytest.mark.parametrize("bins", [None, 20])
def test_the_bands_of_further_models_are_their_own(monkeypatch, bins):
    if bins:
        monkeypatch.setattr("losslens.page.sizes.MOST_CELLS", 0)
        monkeypatch.setattr("losslens.page.sizes.MOST_BINS", bins)
    half = lambda F: model(F) / 2  # noqa: E731
    both, alone = (ll.report(*first, FRAME, Y, loss="squared_error", shapley=False, **more).summary
                   for first, more in (((model,), {"models": {"half": half}}), ((half,), {})))  # fmt: skip
    for name, feature in named(both).items():
        for key in ("pi", "pi_low", "pi_high", "pd", "pd_low", "pd_high"):
            np.testing.assert_allclose(feature["models"][1][key], named(alone)[name]["models"][0][key])


def test_texts_of_a_column_stay_apart_and_missing_values_have_none():
    frame = FRAME.assign(
        code=pd.Categorical(np.array([1234567.1, 1234567.2, 1234567.3])[np.arange(N) % 3]),
        known=[None, "missing", "there", "there"] * (N // 4),
    )
    page = report(X=frame, shapley=False).summary
    columns = {column["name"]: column["values"] for column in page["table"]["columns"]}
    assert columns["code"][:4] == ["1234567.1", "1234567.2", "1234567.3", "1234567.1"]
    assert columns["known"][:4] == [None, "missing", "there", "there"]
    assert sorted(named(page)["code"]["labels"]) == ["1234567.1", "1234567.2", "1234567.3"]
    assert sorted(named(page)["known"]["labels"]) == ["missing", "there", "“missing”"]


def test_kernel_machines():
    X = np.random.default_rng(0).normal(size=(60, 2))
    page = ll.report(SVR().fit(X, X[:, 0]), X, X[:, 0]).summary
    assert page["features"][0]["models"][0]["engine"] == "products"


# Files and refusals.


def test_the_data_without_the_page():
    known = json.loads(report().json())
    assert known["format"] == 2
    assert known["features"][0]["models"][0]["local"][0] is not None
    assert known["table"]["columns"][0]["values"][3] is None  # missing


def test_a_report_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(Report, "html", lambda self: "page")
    found = report(shapley=False)
    found.save(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text() == "page"
    monkeypatch.setattr("pathlib.Path.replace", lambda self, target: (_ for _ in ()).throw(OSError("full")))
    with pytest.raises(OSError, match="full"):
        found.save(tmp_path / "other.html")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "twon"}, "town"),
        ({"by": np.arange(3)}, "by"),
        ({"rows": 2}, "rows is a whole number from 3 on"),
        ({"y": None}, "y, the true values, is missing"),
        ({"features": [("size", "rooms")]}, "curves only"),
        ({"features": ["nothing"]}, "nothing"),
    ],
)
def test_what_a_report_refuses(options, message):
    with pytest.raises(ValueError, match=message):
        report(**options)


def test_scores_of_functions_and_lists_of_models_are_refused():
    with pytest.raises(ValueError, match="loss must be named for model"):  # what it predicts is not known
        report(loss="r2")
    with pytest.raises(TypeError, match="mapping"):
        report(models=[model])


def test_bins_keep_missing_apart_and_rare_words_together():
    values = np.append(np.arange(300.0), np.nan)
    place = cells._bins(values, np.full(301, 1 / 301), ordered=True, most=128)
    assert place[-1] == place.max() == place[-2] + 1
    assert len(place) == 301
    assert place.max() < 128
    words = cells._bins(
        np.array([f"w{k}" for k in range(300)], object), np.arange(300, 0, -1.0), ordered=False, most=128
    )
    assert words[:127].tolist() == list(range(127))
    assert set(words[127:]) == {127}


def test_no_model_takes_the_place_of_the_one_under_report():
    with pytest.raises(ValueError, match="different names"):
        report(models={"this model": model})
    with pytest.raises(ValueError, match="different names"):
        report(models={1: model, "1": model})
    with pytest.raises(ValueError, match="flat: "):
        report(models={"flat": lambda F: F["nothing"]})


def test_columns_of_many_ties_do_not_go_together():
    """Two independent columns that are mostly 0: ranks are means over ties."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((1500, 2)) < 0.95, 0.0, rng.normal(size=(1500, 2)))
    X = np.column_stack([X, rng.normal(size=1500)])
    said = ll.report(LinearRegression().fit(X, X[:, 2]), X, X[:, 2] + 1, shapley=False).summary["words"]["careful"]
    assert not any("are correlated" in text for text in said)


def test_a_column_under_another_name_keeps_its_column():
    found = named(report(features={"bedrooms": ["rooms"], "house": ["size", "day"]}).summary)
    assert found["bedrooms"]["column"] == "rooms"
    assert found["house"]["column"] is None


def test_rare_words_are_counted_in_the_label_of_their_bin():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"word": [f"w{k}" for k in rng.integers(0, 200, 4000)], "x": rng.normal(size=4000)})
    machine = lambda F: F["x"].to_numpy() + (F["word"] == "w3").to_numpy()  # noqa: E731
    page = ll.report(machine, frame, frame["x"], loss="squared_error", shapley=False, features=["word"]).summary
    labels = page["features"][0]["labels"]
    assert len(labels) == 128
    assert set(labels[:-1]) < set(frame["word"])
    assert labels[-1].endswith(" and 72 rarer")  # 127 words have labels of their own, the last names one of 73


def test_a_notebook_shows_the_page_in_a_frame_of_its_own_with_how_to_save_it(chromium, tmp_path):
    """In a window and printed on a long sheet of paper: the frame is lower than the window, and scrolls by itself."""
    result = report(title='<b>"bikes"</b> & more')
    cell = result._repr_html_()
    assert "<b>Report: &lt;b&gt;" in cell
    assert '<code>.save("report.html")</code>' in cell
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8><p>above</p>{cell}<p>below</p>")
    for height, expected in ((600, 510), (4000, 800)):
        tab = chromium.new_page(viewport={"width": 900, "height": height})
        tab.goto((tmp_path / "cell.html").as_uri())
        inside = tab.frame_locator("iframe")
        inside.locator("h1").first.wait_for()
        assert tab.locator("iframe").bounding_box()["height"] == pytest.approx(expected, abs=4)
        assert tab.locator("body").evaluate("body => body.scrollWidth <= innerWidth")
        assert inside.locator("html").evaluate("page => page.scrollHeight > innerHeight")
        tab.close()


def test_a_notebooks_frame_remembers_what_was_chosen(chromium, tmp_path):
    """A notebook makes the frame anew whenever its cell is shown: what the reader picked is still there."""
    (tmp_path / "cell.html").write_text(f"<!doctype html><meta charset=utf-8>{report()._repr_html_()}")
    tab = chromium.new_page()
    tab.goto((tmp_path / "cell.html").as_uri())
    inside = tab.frame_locator("iframe")
    inside.locator("html[data-ready]").wait_for()
    first = inside.locator("#feature-name").inner_text()
    inside.locator("#ranking-body tr button").nth(1).click()
    chosen = inside.locator("#feature-name").inner_text()
    assert chosen != first
    tab.reload()
    inside.locator("html[data-ready]").wait_for()
    assert inside.locator("#feature-name").inner_text() == chosen
    tab.close()


def test_columns_are_described_where_they_are_named(opened):
    frame = pd.DataFrame(np.random.default_rng(0).normal(size=(60, 2)), columns=["hr", "temp"])
    explain = partial(
        ll.report, lambda X: X["hr"].to_numpy(), frame, frame["hr"] * 2, loss="squared_error", interactions=False,
        shapley=False, random_state=0,
    )  # fmt: skip
    page = opened(explain(descriptions={"hr": "hour of the day"}).summary)
    for place in ("table.leading", "#ranking-body", "#feature-name"):
        assert page.locator(f"{place} .described").all_inner_texts() == ["hour of the day"]
    with pytest.raises(ValueError, match="descriptions: no column 'temo'; did you mean 'temp'"):
        explain(descriptions={"temo": "degrees"})
    with pytest.raises(TypeError, match="descriptions are a mapping"):
        explain(descriptions=["hour"])
    frame.attrs["descriptions"] = {"temp": "degrees", "gone": "a column that was left out"}
    assert [one["description"] for one in explain().summary["features"]] == ["", "degrees"]
