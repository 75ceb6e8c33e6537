"""Each sentence is said where it is so, beside the number, and not where it isn't."""

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.linear_model import LogisticRegression

import losslens as ll
from losslens.results.row_changes import ConditionalImpact
from losslens.uncertainty import cautions
from pictures import caption, looked_at

RNG = np.random.default_rng(0)
N = 200
NORMAL = RNG.normal(size=(N, 2))
HEAVY = np.exp(1.5 * NORMAL)  # a few rows hold most of the variance
NOISE = RNG.normal(size=N)
FEW = "few rows decide this number"


def model(X):
    return X[:, 0] + 0.2 * X[:, 1]


def explain(X=NORMAL, **options):
    y = X[:, 0] + NOISE
    return ll.feature_importance(model, X, y, loss="squared_error", donors="all", progress=False, **options)


def test_a_number_that_many_rows_make_needs_no_caution():
    found = explain()
    assert found.cautions == []
    assert list(found.to_frame()["caution"]) == ["", ""]
    assert "decide" not in repr(found)
    assert found.difference("x0", "x1").caution == ""


def test_a_few_rows_decide_where_the_skewness_is_at_its_limit():
    """The limit is 3 (sqrt(t^2 + 1/2) - t), t Student's quantile at 95%."""
    t = stats.t.ppf(0.975, N - 1)
    limit = 3 * (np.sqrt(t**2 + 0.5) - t)
    for sign in (1, -1):
        assert cautions.skewed(sign * limit * 0.999, N - 1) == ""
        assert FEW in cautions.skewed(sign * limit * 1.001, N - 1)
    found = explain(HEAVY)["x0"]
    assert found.influence.skewness > limit
    assert FEW in found.caution


def test_it_stands_beside_the_number_everywhere(tmp_path):
    found = explain(HEAVY)
    frame = found.to_frame().set_index("feature")
    assert frame.loc["x0", "caution"] == "few rows decide"
    for text in (repr(found), repr(found["x0"]._table().text()), found._repr_html_()):
        assert FEW in text
    apart = found.difference("x0", "x1")
    assert FEW in apart.caution
    assert FEW in repr(apart)
    found.save(tmp_path / "imp")
    assert ll.load(tmp_path / "imp")["x0"].caution == found["x0"].caution
    written = " ".join(text.get_text() for text in found.plot().figure.findobj(lambda a: hasattr(a, "get_text")))
    assert "few rows decide" in " ".join(written.split())


def test_the_report_hands_it_to_the_page():
    page = ll.report(model, HEAVY, HEAVY[:, 0] + NOISE, loss="squared_error", shapley=False, interactions=False)
    shown = {feature["name"]: feature["models"][0]["caution"] for feature in page.summary["features"]}
    assert FEW in shown["x0"]
    assert "△" in page.html()


def test_shapley_shares_and_comparisons_say_it_too():
    y = HEAVY[:, 0] + NOISE
    how = {"loss": "squared_error", "progress": False}
    shares = ll.shapley_importance(model, HEAVY, y, **how)
    assert FEW in shares.caution[0]
    in_frame = shares.to_frame().set_index("feature").loc[list(shares.features), "caution"]
    assert list(in_frame) == list(map(cautions.in_short, shares.caution))
    assert FEW in repr(shares)
    both = ll.compare({"a": model, "b": lambda X: 0.5 * X[:, 0]}, HEAVY, y, shapley=False, donors="all", **how)
    assert FEW in both.difference("x0", "a", "b").caution
    assert both.differences()["caution"].str.contains("few rows decide").any()
    assert "caution" in both.to_frame()


def test_few_rows_in_a_group():
    found = explain()["x0"]
    assert "number of rows is" not in found.given(np.arange(10)).caution
    assert "The effective number of rows is 9" in found.given(np.arange(9)).caution
    one_row_holds_all = np.r_[1000.0, np.ones(N - 1)]
    assert "The effective number of rows is" in explain(sample_weight=one_row_holds_all)["x0"].caution


def test_few_groups_are_warned_of_once_and_said_beside_the_number():
    few, many = np.arange(N) // 8, np.arange(N) // 6  # 25 and 34 groups
    with pytest.warns(UserWarning, match="The effective number of groups is 25") as caught:
        found = explain(groups=few)
    assert len(caught) == 1
    assert "The effective number of groups is 25" in found["x1"].caution
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert explain(groups=many).cautions == []
    unequal = np.where(np.arange(N) < 100, 0, np.arange(N))  # 101 groups, but half of all rows in one
    with pytest.warns(UserWarning, match=r"number of groups is 3\.96"):
        explain(groups=unequal)


def test_a_log_loss_at_its_bound():
    """Of 1,000 cells 20 are at the bound where a share of 2% is counted."""
    assert cautions.clipped(0.01) == ""
    assert cautions.clipped(float("nan")) == ""
    assert cautions.clipped(0.02).startswith("2% of the replaced predictions are at the bound")

    class Certain:
        classes_ = np.array([0, 1])

        def predict(self, X):
            return (X[:, 0] > 1).astype(int)

        def predict_proba(self, X):
            sure = (X[:, 0] > 1).astype(float)
            return np.column_stack([1 - sure, sure])

    y = (NORMAL[:, 0] > 1).astype(int)
    found = ll.feature_importance(Certain(), NORMAL, y, loss="log_loss", progress=False)
    assert found["x0"].clipped > 0.01
    assert "at the bound of the log loss" in found["x0"].caution
    assert found["x1"].caution == ""


def test_changes_of_rows():
    local = np.column_stack([NOISE, np.exp(6 * NOISE)])
    how = {"error": 1.0, "title": "squared error", "backend": "pandas"}
    found = ConditionalImpact(features=("a", "b"), local=local, weight=np.full(N, 1 / N), **how)
    assert found.caution[0] == ""
    assert FEW in found.caution[1]
    assert FEW in repr(found)
    two = ConditionalImpact(features=("a", "b"), local=local[:2], weight=np.full(2, 0.5), **how)
    assert two.caution == ("", "")


def test_notes_name_the_features_unless_all_share_the_sentence():
    assert cautions.noted(["a", "b"], ["S.", "S."]) == ["s"]
    assert cautions.noted(["a", "b"], ["", "S."]) == ["b: s"]
    assert cautions.noted(list("abcdef"), ["S."] * 5 + [""]) == ["a, b, c and 2 more: s"]
    assert cautions.noted(["a"], [""]) == []


def test_differences_of_few_groups_say_so_too():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(24, 3))
    y = X[:, 0] * X[:, 1] + X[:, 2] + rng.normal(size=24)

    def model(X):
        return X[:, 0] * X[:, 1] + X[:, 2]

    how = {"loss": "squared_error", "groups": np.arange(24) // 4}
    found = ll.feature_importance(model, X, y, **how)
    assert "number of groups is 6" in found.difference("x0", "x2").caution
    both = ll.compare({"a": model, "b": lambda X: X[:, 2] + 0.0}, X, y, shapley=False, **how)
    assert "number of groups is 6" in both.difference("x2", "a", "b").caution
    assert (
        "number of groups is"
        not in ll.feature_importance(model, X, y, loss="squared_error").difference("x0", "x2").caution
    )


@pytest.mark.parametrize("seed", range(6))
def test_rounding_is_not_decided_by_a_few_rows(seed):
    """Two copies of a column are equally important; what is left of the difference is rounding."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=40)
    X = np.column_stack([a, a, rng.normal(size=40)])
    y = 2 * a + rng.normal(size=40)
    found = ll.feature_importance(lambda X: X[:, 0] + X[:, 1] + 0.5 * X[:, 2], X, y, loss="squared_error", donors="all")
    assert found.difference("x0", "x1").caution == ""


@pytest.mark.parametrize("doubted", [True, False])
def test_the_picture_of_a_feature_says_it(doubted):
    """Lines, dots and the histogram of a group have a band or the PFI; a word that is rare decides both."""
    X = HEAVY if doubted else NORMAL
    rare = np.arange(N) % (66 if doubted else 2) == 0
    table = pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1], "word": np.where(rare, "far", "near")})
    asked = {"lines": ["x0"], "dots": ["word"], "group": ["x0", "x1"]}

    def of_words(T):
        return T["x0"].to_numpy() + 0.2 * T["x1"].to_numpy() + 20 * (T["word"] == "far").to_numpy()

    found = ll.feature_importance(
        of_words, table, of_words(table) + NOISE, loss="squared_error", features=asked, donors="all", progress=False
    )
    for one in found.values():
        assert (FEW in one.caution) == doubted
        assert (FEW in caption(looked_at(one.plot()))) == doubted


def test_bands_of_effects_and_of_curves_alone_say_what_is_about_rows():
    """The rows of a band are few whether or not it has a PFI."""
    for groups, said in ((np.arange(N) // 8, True), (np.arange(N) // 6, False)):
        ask = {"loss": "squared_error", "groups": groups, "progress": False}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            full = explain(groups=groups)["x0"]
            curves = ll.feature_importance(model, NORMAL, NORMAL[:, 0] + NOISE, donors=ll.Grid(9), **ask)["x0"]
        for one in (curves, full, full.effect):
            assert one.band() is not None
            assert ("number of groups is 25" in caption(looked_at(one.plot()))) == said
    assert "number of rows is" not in caption(looked_at(explain()["x0"].given(np.arange(10)).plot()))


def test_the_picture_of_a_comparison_and_its_table_say_it():
    for X, doubted in ((HEAVY, True), (NORMAL, False)):
        models = {"a": model, "b": lambda X: 0.5 * X[:, 0]}
        both = ll.compare(models, X, X[:, 0] + NOISE, loss="squared_error", shapley=False, donors="all", progress=False)
        assert bool(both.cautions) == doubted
        for text in (caption(looked_at(both.plot())), repr(both), both._repr_html_()):
            assert (FEW in text) == doubted
    assert any(note.startswith("x0 (a), x0 (b)") for note in both_of_heavy_tails().cautions)
    moved = (HEAVY[:, 0] + NOISE - model(HEAVY)) ** 2
    errors = both_of_heavy_tails().errors().set_index("model")["caution"]
    skewness = np.sum((moved - moved.mean()) ** 3) / np.sum((moved - moved.mean()) ** 2) ** 1.5
    assert (errors["a"] == "few rows decide") == bool(cautions.skewed(skewness, N - 1))


def both_of_heavy_tails():
    models, y = {"a": model, "b": lambda X: 0.5 * X[:, 0]}, HEAVY[:, 0] + NOISE
    return ll.compare(models, HEAVY, y, loss="squared_error", shapley=False, donors="all", progress=False)


def test_pictures_of_pairs_say_it():
    for X, doubted in ((HEAVY, True), (NORMAL, False)):
        found = ll.pair_interactions(lambda X: X[:, 0] * X[:, 1], X, X[:, 0] * X[:, 1] + NOISE, loss="squared_error")
        assert bool(found.cautions) == doubted
        assert (FEW in caption(looked_at(found.plot_ranking()))) == doubted


def test_the_page_says_of_which_numbers():
    for X, doubted in ((HEAVY, True), (NORMAL, False)):
        ask = {"loss": "squared_error", "random_state": 0, "progress": False}
        page = ll.report(model, X, X[:, 0] + NOISE, interactions=False, **ask)
        careful = [text for text in page.summary["words"]["careful"] if FEW in text]
        assert [
            any(text.startswith(f"{what} of x0") for text in careful) for what in ("Importance", "Shapley share")
        ] == ([doubted, doubted])
    assert cautions.sentences(list("abcd"), ["S."] * 4, "Share of") == ["Share of every feature: s."]
    assert cautions.sentences(list("ab"), ["S."] * 2, "Share of") == ["Share of a, b: s."]
    assert cautions.sentences(list("ab"), ["", ""], "Share of") == []


def zero_inflated(n, zeros, seed=0):
    """A target that is 0 in this share of the rows and skewed in the others; and its mean given x."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    y = np.where(rng.random(n) < zeros, 0.0, np.exp(X[:, 0]) * rng.exponential(size=n))
    return X, y, lambda X: (1 - zeros) * np.exp(X[:, 0])


def test_a_target_that_is_mostly_zero_is_said_where_its_intervals_are_too_short():
    """At n = 150 with 80% zeros they cover 81%; at n = 20,000 the mean is hardly skewed, and they cover 95%."""
    said = "The target is 0 in 8"
    X, y, model = zero_inflated(150, 0.8)
    imp = ll.feature_importance(model, X, y, loss="squared_error")
    assert said in imp["x0"].caution
    assert said not in imp["x1"].caution  # 0 for every row: nothing is uncertain
    assert any("target is 0" in line for line in imp.estimates().cautions)
    shares = ll.shapley_importance(model, X, y, loss="squared_error")
    assert said in shares.caution[0]
    assert shares.caution[0] == shares.estimates().cautions[0]
    assert "target is 0" in imp.difference("x0", "x1").caution
    assert "target is 0" in imp["x0"].given(X[:, 0] > 0).caution
    many = ll.feature_importance(
        *(zero_inflated(20_000, 0.8)[k] for k in (2, 0, 1)), loss="squared_error", features=["x0"]
    )
    assert "target is" not in many["x0"].caution


@pytest.mark.parametrize("kind", ["normal", "classes", "a few zeros", "many zeros, the others alike"])
def test_other_targets_are_not_called_inflated(kind):
    X, y, model = zero_inflated(150, 0.8)
    rng = np.random.default_rng(1)
    y, loss = {
        "normal": (X[:, 0] + rng.normal(size=150), "squared_error"),
        "classes": ((rng.random(150) < 0.05).astype(int), "log_loss"),
        "a few zeros": (np.where(rng.random(150) < 0.2, 0, np.exp(X[:, 0])), "squared_error"),
        "many zeros, the others alike": (np.where(rng.random(150) < 0.6, 0, 10.0), "squared_error"),
    }[kind]
    asked = LogisticRegression().fit(X, y) if kind == "classes" else model
    imp = ll.feature_importance(asked, X, y, loss=loss)
    assert not any("target is" in one.caution for one in imp.values())


def test_weights_and_groups_count_in_a_target_that_is_mostly_zero():
    """A target of weight 0 is none; in few groups the mean is more skewed than in as many rows."""
    X, y, model = zero_inflated(2000, 0.8)
    weight = (y > 0).astype(float)
    alone = ll.feature_importance(model, X, y, loss="squared_error", sample_weight=weight, features=["x0"])
    assert "target is" not in alone["x0"].caution
    one = ll.feature_importance(model, X, y, loss="squared_error", features=["x0"])["x0"]
    skewness = np.sum((y - y.mean()) ** 3) / np.sum((y - y.mean()) ** 2) ** 1.5
    assert one.sample.usual_target == pytest.approx((0.0, np.mean(y == 0), skewness))


@pytest.mark.parametrize(
    ("sentence", "short"),
    [
        (cautions.few_groups(6.31), "few groups (6.31)"),
        (cautions.few_rows(9), "few rows (9)"),
        (cautions.small_group(4), "small group (4)"),
        (cautions.skewed(99.0, 200), "few rows decide"),
        (cautions.clipped(0.02), "clipped log loss"),
        (cautions.inflated(SimpleNamespace(usual_target=(0.0, 0.8, 0.3))), "target often 0"),
        (cautions.doubted_folds(3, 5), "doubtful draws"),
        ("Correlated with a and b: shuffling it may create unrealistic rows (imp.extrapolation).", "correlated"),
        ("38% of the rows with it shuffled are unlike any real one.", "38% unrealistic"),
        ("About a log loss.", "About a log loss."),
        ("", ""),
    ],
)
def test_a_frame_has_a_few_words_for_each(sentence, short):
    assert cautions.in_short(sentence) == short
    assert cautions.in_short(sentence.lower()) == short.lower()  # as it stands after the name of a model


def test_a_frame_counts_several():
    assert cautions.in_short(f"{cautions.few_groups(6)} {cautions.skewed(99.0, 200)}") == "2 cautions"


def test_the_numbers_beside_a_caution_are_printed():
    """Lines of more than 80 letters lose columns in pandas: tiny p-values take 12 letters."""
    found = explain(np.column_stack([HEAVY[:, 0], HEAVY[:, 0] + NOISE / 9]))
    printed = str(found.test())
    assert found.cautions
    assert "..." not in printed
    assert "p_adjusted" in printed
    assert "..." not in str(found.ranks())
