"""Pages with all rows, a sample, or none of them: what is in the file, and that the numbers of all rows stay."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pandas as pd
import pytest

import losslens as ll
from browser import tick, violations
from losslens.page import embedding
from losslens.page.embedding import FEWEST, embedded
from losslens.page.packing import Box
from losslens.page.page import packed

N = 307  # a prime: no other array has this length
RNG = np.random.default_rng(3)
FRAME = pd.DataFrame(
    {
        "size": RNG.normal(size=N) * 1000,
        "rooms": np.minimum(RNG.poisson(3, N), 9),
        "town": RNG.choice(["harbour", "hills", "once"], N, p=[0.6, 0.38, 0.02]),
        "day": pd.Timestamp("2024-03-01 03:04:05") + pd.to_timedelta(RNG.integers(0, 10**7, N), unit="s"),
    },
    index=pd.Index([f"person-{k:03d}" for k in range(N)]),
)
FRAME.loc[FRAME.index[5], "size"] = np.nan


def model(F: Any) -> Any:
    size = F["size"].fillna(0).to_numpy() / 1000
    return size * F["rooms"].to_numpy() + 3 * (F["town"] == "hills").to_numpy() + 0.001 * size**2


Y = model(FRAME) + RNG.normal(size=N)


@pytest.fixture(scope="module")
def every() -> Any:
    """The summary with all rows and findings of every kind; three embeddings are made of it."""
    bad = lambda F: model(F) / 2  # noqa: E731
    return ll.report(model, FRAME, Y, loss="squared_error", random_state=0, by="town", models={"half": bad}).summary


def sampled(every: Any, embed: Any, monkeypatch: Any = None) -> Any:
    return embedded(every, embed, np.random.default_rng(1))


def arrays(tree: Any) -> list[Any]:
    if isinstance(tree, dict):
        return [found for part in tree.values() for found in arrays(part)]
    if isinstance(tree, (list, tuple)):
        return [found for part in tree for found in arrays(part)] + ([np.asarray(tree, object)] if tree else [])
    return [tree] if isinstance(tree, np.ndarray) else []


def test_a_file_without_rows_has_no_value_target_or_prediction(every: Any) -> None:
    """Neither in the arrays as the page unpacks them, nor in text, nor rounded to six digits."""
    page = sampled(every, "none")
    assert page["n"] == 0
    assert page["n_explained"] == N
    assert all(N not in found.shape for found in arrays(page))
    secret = [FRAME["size"].dropna(), Y, model(FRAME), (Y - model(FRAME)) ** 2, Y - model(FRAME)]
    secret += [feature["models"][m]["local"] for feature in every["features"] for m in (0, 1)]
    values = np.sort(np.concatenate([np.asarray(part, float) for part in secret]))
    numbers = np.array([float(x) for found in arrays(page) for x in found.ravel() if isinstance(x, (int, float))])
    numbers = np.unique(numbers[np.abs(numbers) > 20])  # small ones coincide by chance
    assert len(numbers)
    place = np.clip(np.searchsorted(values, numbers), 1, len(values) - 1)
    nearest = np.minimum(np.abs(values[place - 1] - numbers), np.abs(values[place] - numbers))
    assert (nearest > 1e-6 * np.abs(numbers)).all(), numbers[nearest <= 1e-6 * np.abs(numbers)]
    assert not np.isin(numbers, FRAME["day"].astype("datetime64[ms]").astype("int64")).any()
    text = json.dumps(packed(page, Box()), default=str)
    assert "person-" not in text
    assert "once" not in text  # a category of few rows
    assert "03:04" not in text
    in_text = np.array([float(x) for x in re.findall(r"-?\d+\.\d{4,}", text)])
    in_text = in_text[np.abs(in_text) > 20]
    place = np.clip(np.searchsorted(values, in_text), 1, len(values) - 1)
    nearest = np.minimum(np.abs(values[place - 1] - in_text), np.abs(values[place] - in_text))
    assert (nearest > 1e-6 * np.abs(in_text)).all(), in_text[nearest <= 1e-6 * np.abs(in_text)]


def test_curves_without_rows_are_means_over_values_that_several_rows_hold(every: Any) -> None:
    page = sampled(every, "none")
    whole = {feature["name"]: feature for feature in every["features"]}
    for feature in page["features"]:
        g, before = len(feature["labels"]), whole[feature["name"]]
        assert len(set(feature["labels"])) == g
        for entry, was in zip(feature["models"], before["models"], strict=True):
            assert entry["pfi"] == was["pfi"]
            assert len(entry["pi"]) == len(entry["pd"]) == len(feature["weights"]) == g
            assert (entry["pi_low"] <= entry["pi"]).all()
            assert (entry["pi"] <= entry["pi_high"]).all()
        held = feature["weights"] * N
        assert held.min() > FEWEST - 1 or feature["name"] == "town"
        if feature["name"] != "size":  # whose only missing value is left out
            np.testing.assert_allclose(feature["models"][0]["pi"] @ feature["weights"], feature["models"][0]["pfi"])
    town = next(feature for feature in page["features"] if feature["name"] == "town")
    assert town["labels"] == ["harbour", "hills", "1 rare one"]
    rooms = next(feature for feature in page["features"] if feature["name"] == "rooms")
    assert "3" in rooms["labels"]  # held by many
    assert any(label.startswith("about ") for label in rooms["labels"])


def test_a_long_tail_has_an_axis_without_rows() -> None:
    """Values are rounded by the spread of their bin: by that of all values, most of them would be 0."""
    tail = pd.DataFrame({"amount": np.exp(np.linspace(-12, 12, 200))})
    page = ll.report(lambda F: np.log(F["amount"].to_numpy()), tail, np.linspace(-12, 12, 200), loss="squared_error",
                     shapley=False, interactions=False, embed="none").summary  # fmt: skip
    [feature] = page["features"]
    assert (np.diff(feature["values"]) > 0).all()
    assert len(set(feature["labels"])) == len(feature["labels"]) > 10
    assert not np.isin(feature["values"], tail["amount"]).any()


def test_groups_of_few_rows_are_not_told_of(every: Any) -> None:
    assert [one["label"] for one in every["for_whom"]["groups"]] == ["harbour", "hills", "once"]
    found = sampled(every, "none")["for_whom"]
    assert [one["label"] for one in found["groups"]] == ["harbour", "hills"]
    for model, before in zip(found["models"], every["for_whom"]["models"], strict=True):
        assert model["groups"] == before["groups"][:2]
        assert model["differences"] == before["differences"][:1]


def test_a_sample_has_the_rows_that_it_says_and_all_numbers(every: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "SAMPLE", 50)
    page = sampled(every, "sample")
    assert page["n"] == len(page["table"]["y"]) == 50
    assert "holds 50 rows, drawn at random from the 307" in page["holds"]
    assert page["words"] is every["words"]
    place = [FRAME.index.get_loc(name) for name in page["table"]["index"]]
    for feature, before in zip(page["features"], every["features"], strict=True):
        np.testing.assert_array_equal(feature["models"][0]["local"], before["models"][0]["local"][place])
        np.testing.assert_array_equal(feature["models"][0]["pi"], before["models"][0]["pi"])
        np.testing.assert_array_equal(feature["own"], before["own"][place])
        for form in ("cells", "ice"):
            values = feature["models"][0][form]["values"]
            np.testing.assert_array_equal(values, before["models"][0][form]["values"][place])
    rest = page | {"features": []}  # axes have the values of all rows, which the page says
    assert all(N not in found.shape for found in arrays(rest))
    other = embedded(every, "sample", np.random.default_rng(2))
    assert page["table"]["index"] != other["table"]["index"]


def test_all_rows_are_said_to_be_in_the_file(every: Any) -> None:
    assert every["embed"] == "all"
    assert "all 307 rows" in every["holds"]


def test_pages_of_every_kind_work(opened: Any, every: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedding, "SAMPLE", 50)
    page = opened(sampled(every, "none"))
    assert not page.locator("#subgroup").is_visible()
    assert not page.locator("#observations").is_visible()
    assert "no row of the data" in page.locator("#holds").inner_text()
    assert violations(page) == []
    for k in range(4):
        page.locator(f'button.feature[data-feature="{k}"]').click()
        assert page.locator("#chart-pi canvas").count()
    bars = page.evaluate("Bokeh.documents.at(-1).get_model_by_name('pi-rows-all').data.top")
    assert sum(bars) == pytest.approx(N, rel=0.01)
    page = opened(sampled(every, "sample"))
    assert "All 307 rows" in page.locator("#subgroup-words").inner_text()
    tick(page, "town", "harbour")
    assert "of the 50 rows in this file" in page.locator("#subgroup-words").inner_text()
    assert "this file holds some of them" in page.locator("#feature-numbers").inner_text()


def test_an_unknown_way_to_embed_is_refused_before_anything_is_computed() -> None:
    with pytest.raises(ValueError, match="embed is 'all', 'sample' or 'none'"):
        ll.report(model, FRAME, Y, embed="some")
    with pytest.raises(ValueError, match="embed is 'all', 'sample' or 'none'"):
        ll.report(model, FRAME, Y, embed=FRAME)
    with pytest.raises(TypeError, match="title is the text of the headline; got DataFrame"):
        ll.report(model, FRAME, Y, title=FRAME)
