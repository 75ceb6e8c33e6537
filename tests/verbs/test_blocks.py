"""Features that go together: groups of columns, and their joint importance."""

import numpy as np
import pandas as pd
import pytest

import losslens as ll


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def test_groups_are_ready_for_features(rng):
    size = rng.normal(size=300)
    X = pd.DataFrame({"cut": rng.choice(list("abc"), 300), "carat": size, "x": size**3 + 0.1 * rng.normal(size=300)})
    groups = ll.feature_groups(X)
    assert groups == {"cut": ["cut"], "carat, x": ["carat", "x"]}
    imp = ll.feature_importance(lambda X: X["carat"] + X["x"], X, size, loss="squared_error", features=groups)
    assert list(imp) == ["cut", "carat, x"]
    assert imp["carat, x"].columns == ("carat", "x")


def test_groups_are_the_same_for_every_container_and_order_of_calls(rng):
    pl = pytest.importorskip("polars")
    X = rng.normal(size=(6000, 3))
    X[:, 2] = X[:, 0] + 0.1 * X[:, 1]
    frame = pd.DataFrame(X, columns=["a", "b", "c"])
    expected = {"a, c": ["a", "c"], "b": ["b"]}
    assert ll.feature_groups(frame) == ll.feature_groups(pl.from_pandas(frame)) == expected
    assert [[str(column) for column in group] for group in ll.feature_groups(X).values()] == [["x0", "x2"], ["x1"]]


def test_a_group_is_not_called_as_a_column_is(rng):
    x = rng.normal(size=100)
    X = pd.DataFrame({"a": x, "b": x, "a, b": rng.normal(size=100)})
    assert ll.feature_groups(X) == {"a, b ": ["a", "b"], "a, b": ["a, b"]}


@pytest.mark.parametrize("threshold", [0, -0.5, 1.5, "high", True, None, float("nan")])
def test_a_threshold_is_a_number_up_to_one(threshold):
    with pytest.raises(ValueError, match="threshold is an association above 0 and at most 1"):
        ll.feature_groups(np.eye(30), threshold)


def test_files_are_refused(tmp_path):
    with pytest.raises(TypeError, match="read some rows of the files"):
        ll.feature_groups(str(tmp_path / "data.parquet"))


# -- together ----------------------------------------------------------------------------------------------------------


def correlated(rng, n=200, r=0.9, p=3):
    """Two columns with correlation r, and others."""
    X = rng.normal(size=(n, p))
    X[:, 1] = r * X[:, 0] + np.sqrt(1 - r**2) * X[:, 1]
    return X


def explained(f, X, y, **options):
    imp = ll.feature_importance(f, X, y, **{"loss": "squared_error", "progress": False, "random_state": 0} | options)
    return imp, imp.together(f, X, y, progress=False, random_state=0)


def opposed(X):
    return X[:, 0] - X[:, 1]


def brute_force(f, X, y, columns, weight=None, group=None):
    """Mean over all pairs (of rows of different groups) of the change of squared error."""
    n = len(X)
    total = mass = 0.0
    weight = np.ones(n) if weight is None else weight
    for k in range(n):
        replaced = X.copy()
        replaced[:, columns] = X[k, columns]
        pairs = weight * weight[k] * (1.0 if group is None else group != group[k])
        total += pairs @ ((f(replaced) - y) ** 2 - (f(X) - y) ** 2)
        mass += pairs.sum()
    return total / mass


@pytest.mark.parametrize("kind", ["plain", "weights", "groups"])
def test_the_joint_importance_is_the_mean_over_all_pairs(rng, kind):
    X = correlated(rng, 60)
    y = X[:, 0] + rng.normal(size=60)
    options = {"weights": {"sample_weight": rng.gamma(2, size=60)}, "groups": {"groups": np.arange(60) // 4}}
    chosen = options.get(kind, {})
    imp, together = explained(opposed, X, y, **chosen)
    block = together["x0, x1"]
    weight, group = chosen.get("sample_weight"), chosen.get("groups")
    assert block.importance == pytest.approx(brute_force(opposed, X, y, [0, 1], weight, group))
    for j, name in enumerate(block.features):
        assert block.numbers[name].value == pytest.approx(brute_force(opposed, X, y, [j], weight, group))
        assert block.numbers[name].value == imp[name].pfi
    assert block.sum == pytest.approx(imp["x0"].pfi + imp["x1"].pfi)


def test_a_difference_is_that_of_the_numbers_beside_it_and_has_the_error_of_a_jackknife(rng):
    """Leaving row g out of rows and donors changes the joint importance less that of a member; see `influence`."""
    X = correlated(rng, 40)
    y = X[:, 0] + rng.normal(size=40)
    _, together = explained(opposed, X, y)
    block = together["x0, x1"]
    less = block.less("x0")
    assert less.value == block.importance - block.numbers["x0"].value
    left = []
    for g in range(40):
        some = np.delete(np.arange(40), g)
        both, alone = (brute_force(opposed, X[some], y[some], columns) for columns in ([0, 1], [0]))
        left.append((both - alone) * 39 / 38)
    full = less.value * 40 / 39
    jackknife = np.sqrt(39 / 40 * np.sum((np.array(left) - np.mean(left)) ** 2))
    assert less.std_error == pytest.approx(jackknife, rel=1e-6)
    assert less.low < full < less.high
    of_sum = block.less()
    assert of_sum.value == pytest.approx(block.importance - block.sum)


def test_sampled_members_share_their_donors(rng):
    """Where the model only adds, a donor changes both by the same amounts, so that 2 d_0 d_1 is left in each cell."""
    X = correlated(rng, 120)
    imp, together = explained(opposed, X, X[:, 0], donors=ll.Latin(5))
    block = together["x0, x1"]
    assert not together.exact
    assert together.design == "Latin(5)"
    # For the squared error D_01 - D_0 - D_1 = 2 d_0 d_1 in each cell: with donors of their own it would not hold.
    donors = ll.Latin(5).draw(120, np.random.default_rng((0,)))
    change = X[donors] - X[:, None]
    assert block.less().value == pytest.approx(np.mean(2 * change[:, :, 0] * -change[:, :, 1]))
    assert block.less("x0").std_error < imp["x0"].std_error


CASES = {  # a function, and the correlation of x0 and x1
    "substitutes": (lambda X: X[:, 0] + X[:, 1], 0.9),
    "opposed": (opposed, 0.9),
    "one carries it": (lambda X: X[:, 0] + 0.0 * X[:, 1], 0.9),
    "more than the sum": (lambda X: X[:, 0] + 0.3 * X[:, 1], 0.9),
    "overlapping": (lambda X: X[:, 0] + 0.8 * X[:, 1], -0.3),
}


@pytest.mark.parametrize("case", CASES)
def test_the_cases_where_they_are_true(rng, case):
    """f = x0 + a x1: PFI_0 = 2, PFI_1 = 2 a^2, together 2 (1 + a^2 + 2 a r).

    Less than the sum and more than either: a r between -min(1, a^2)/2 and 0, so a = .8, r = -.3.
    """
    f, r = CASES[case]
    X = correlated(rng, 600, r)
    y = f(X) + rng.normal(size=600)
    imp = ll.feature_importance(f, X, y, loss="squared_error", progress=False)
    assert imp.together(f, X, y, blocks={"both": ["x0", "x1"]}, progress=False)["both"].case == case


@pytest.mark.parametrize("kind", ["plain", "sampled", "groups"])
def test_independent_features_that_are_added_are_in_no_case(kind):
    """Together 4, alone 2 and 2: neither above the sum nor below it. 4 standard deviations of 200 draws at 5%: 6.2."""
    wrong, runs, n = 0, 200, 40
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n, 2))
        options = {"sampled": {"donors": ll.Latin(6)}, "groups": {"groups": np.arange(n) // 2}}.get(kind, {})
        y = X.sum(axis=1) + rng.normal(size=n)
        imp = ll.feature_importance(lambda X: X.sum(axis=1), X, y, loss="squared_error", progress=False, **options)
        block = imp.together(lambda X: X.sum(axis=1), X, y, blocks={"both": ["x0", "x1"]}, progress=False)["both"]
        wrong += block.case != "can't tell"
    assert wrong / runs < 0.05 + 0.062


def test_equal_importances_are_not_opposed():
    """r = .5, x0 - x1: together 2, and each alone 2: not below either. The others are false, too, but overlapping."""
    wrong, runs, n = 0, 200, 40
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        X = correlated(rng, n, 0.5, p=2)
        y = opposed(X) + rng.normal(size=n)
        imp = ll.feature_importance(opposed, X, y, loss="squared_error", progress=False)
        wrong += imp.together(opposed, X, y, blocks={"b": ["x0", "x1"]}, progress=False)["b"].case == "opposed"
    assert wrong / runs < 0.025 + 0.044


def test_what_makes_no_difference_is_no_case(rng):
    """A contrast of errors in the last bits is not tested: two features that the model ignores."""
    X = correlated(rng)
    imp = ll.feature_importance(lambda X: X[:, 2], X, X[:, 2], loss="squared_error", progress=False)
    block = imp.together(lambda X: X[:, 2], X, X[:, 2], progress=False)["x0, x1"]
    assert (block.case, block.p) == ("can't tell", 1.0)


def test_diabetes_s1_and_s2_cancel():
    from sklearn.datasets import load_diabetes
    from sklearn.linear_model import LinearRegression

    X, y = load_diabetes(return_X_y=True, as_frame=True)
    model = LinearRegression().fit(X, y)
    imp = ll.feature_importance(model, X, y)
    assert imp.blocks["s1, s2"] == ("s1", "s2")
    block = imp.together(model, X, y)["s1, s2"]
    assert block.case == "opposed"
    assert block.balanced == block.largest.name == "s1"
    assert block.less("s1").high < 0


def test_breast_cancer_nine_columns_are_substitutes():
    """Singly none of them is significant, and together they are half of what the model knows."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.ensemble import GradientBoostingClassifier
    from sklearn.model_selection import train_test_split

    X, y = load_breast_cancer(return_X_y=True, as_frame=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
    model = GradientBoostingClassifier(random_state=0).fit(X, y)
    imp = ll.feature_importance(model, X_test, y_test, random_state=0)
    nine = next(block for block in imp.together(model, X_test, y_test).blocks.values() if len(block.features) == 9)
    assert "mean concavity" in nine.features
    assert nine.case == "substitutes"
    assert nine.importance > 5 * nine.sum


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda f, X, y: ((lambda X: f(X) + X[:, 2]), X, y), "the model's predictions differ"),
        (lambda f, X, y: (f, X[::-1], y), "the model's predictions differ"),
        (lambda f, X, y: (f, X, y[::-1]), "y differs from the true values"),
        (lambda f, X, y: (f, X[:50], y[:50]), "X has 50 rows, but the result was computed on 100"),
        (lambda f, X, y: (f, pd.DataFrame(X, columns=list("abc")), y), "X lacks the column 'x0'"),
    ],
)
def test_another_model_or_other_rows_are_noticed(rng, change, sentence):
    X = correlated(rng, 100)
    y = X[:, 0]
    imp = ll.feature_importance(opposed, X, y, loss="squared_error", progress=False)
    with pytest.raises(ValueError, match=sentence):
        imp.together(*change(opposed, X, y))


def test_what_has_no_blocks_says_so(rng):
    X = correlated(rng, 100, r=0.0)
    imp = ll.feature_importance(opposed, X, X[:, 0], loss="squared_error", progress=False)
    assert imp.blocks == {}
    none = imp.together(opposed, X, X[:, 0])
    assert "no features go together" in repr(none)
    assert (len(none), len(none.to_frame()), len(none.test()), len(none.estimates())) == (0, 0, 0, 0)
    with pytest.raises(ValueError, match="nothing to draw: no features go together"):
        none.plot()
    with pytest.raises(ValueError, match="unknown feature 'x9'"):
        imp.together(opposed, X, X[:, 0], blocks={"b": ["x0", "x9"]})
    with pytest.raises(ValueError, match="two or more features with different columns"):
        imp.together(opposed, X, X[:, 0], blocks={"b": ["x0"]})
    with pytest.raises(TypeError, match="blocks is a mapping"):
        imp.together(opposed, X, X[:, 0], blocks=["x0", "x1"])
    with pytest.raises(ValueError, match="of some rows"):
        imp.given(np.arange(50)).together(opposed, X, X[:, 0])
    drawn = ll.feature_importance(opposed, X, X[:, 0], loss="squared_error", donors=ll.Within(), progress=False)
    with pytest.raises(ValueError, match="drawn given other columns"):
        drawn.together(opposed, X, X[:, 0], blocks={"b": ["x0", "x1"]})


def test_scores_and_files_are_refused_in_one_sentence(rng, tmp_path):
    from sklearn.linear_model import LinearRegression

    X = correlated(rng, 100)
    model = LinearRegression().fit(X, X[:, 0])
    scores = ll.feature_importance(model, X, X[:, 0], loss="r2", progress=False)
    assert scores.blocks == {}
    with pytest.raises(ValueError, match="r2_score has no loss of single rows"):
        scores.together(model, X, X[:, 0], blocks={"b": ["x0", "x1"]})


def test_several_outputs_classes_and_frames_have_blocks(rng):
    from sklearn.linear_model import LogisticRegression

    X = pd.DataFrame(correlated(rng, 150), columns=["a", "b", "c"])
    y = np.where(X["a"] > 0.3, "yes", np.where(X["c"] > 0, "no", "perhaps"))
    model = LogisticRegression().fit(X, y)
    for loss in ("log_loss", "zero_one", "brier"):
        imp = ll.feature_importance(model, X, y, loss=loss, progress=False)
        assert imp.together(model, X, y, progress=False).title == imp.title
    several = ll.feature_importance(
        lambda X: X[["a", "b"]].to_numpy(), X, X[["b", "a"]], loss="squared_error", progress=False
    )
    both = several.together(lambda X: X[["a", "b"]].to_numpy(), X, X[["b", "a"]], progress=False)
    assert both["a, b"].importance > 0


def test_blocks_are_kept_in_files_also_with_the_extrapolation(rng, tmp_path):
    X = correlated(rng)
    imp = ll.feature_importance(opposed, X, X[:, 0], loss="squared_error", progress=False)
    far = imp.extrapolation["x0"].share
    imp.save(tmp_path / "imp")
    loaded = ll.load(tmp_path / "imp")
    assert loaded.blocks == imp.blocks == {"x0, x1": ("x0", "x1")}
    assert loaded["x0"].computed_extrapolation.share == far
    together = imp.together(opposed, X, X[:, 0], progress=False)
    together.save(tmp_path / "together")
    again = ll.load(tmp_path / "together")
    assert repr(again) == repr(together)
    assert again.to_frame().equals(together.to_frame())
    assert again["x0, x1"].less("x0") == together["x0, x1"].less("x0")
    assert loaded.together(opposed, X, X[:, 0], progress=False).to_frame().equals(together.to_frame())


def test_the_ranking_draws_a_block_as_one_bar(rng):
    import matplotlib.pyplot as plt

    X = correlated(rng)
    imp, together = explained(opposed, X, X[:, 0])
    ax = imp.plot(blocks=together)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["x0 and x1", "x2"]
    widths = sorted(round(patch.get_width(), 9) for patch in ax.patches)
    numbers = together["x0, x1"].numbers.value
    assert widths == sorted(np.round([*numbers, imp["x2"].pfi], 9))
    with pytest.raises(TypeError, match=r"blocks is what imp\.together"):
        imp.plot(blocks={"b": ["x0", "x1"]})
    with pytest.raises(ValueError, match="leave out blocks"):
        imp.plot(blocks=together, ratio=True)
    plt.close("all")


# -- given the others --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["plain", "weights", "groups"])
def test_given_the_others_is_the_call_with_a_sampler(rng, kind):
    X = correlated(rng, 300)
    y = X[:, 0] + rng.normal(size=300)
    options = {"weights": {"sample_weight": rng.gamma(2, size=300)}, "groups": {"groups": np.arange(300) // 4}}
    options = options.get(kind, {})
    imp = ll.feature_importance(opposed, X, y, loss="squared_error", progress=False, **options)
    given = imp.given_others(opposed, X, y, random_state=3, progress=False)
    direct = ll.feature_importance(
        opposed, X, y, loss="squared_error", donors=ll.Within(m=32), random_state=3, progress=False, **options
    )
    assert sorted(given) == sorted(direct)
    for name, one in given.items():
        assert one.pfi == pytest.approx(direct[name].pfi, rel=1e-12)
        assert one.std_error == pytest.approx(direct[name].std_error, rel=1e-9)
        assert one.conditioning.condition == "given the other columns"


def test_given_the_others_takes_features_samplers_and_refuses_the_rest(rng):
    X = correlated(rng, 200, p=10)
    imp = ll.feature_importance(opposed, X, X[:, 0], loss="squared_error", progress=False)
    assert len(imp.given_others(opposed, X, X[:, 0], progress=False)) == 8
    one = imp.given_others(opposed, X, X[:, 0], ll.Residual(m=8), features=["x1"], progress=False)
    assert list(one) == ["x1"]
    assert repr(one["x1"].design).startswith("Residual")
    with pytest.raises(ValueError, match="unknown feature 'x99'"):
        imp.given_others(opposed, X, X[:, 0], features=["x99"])
    with pytest.raises(ValueError, match="features is empty"):
        imp.given_others(opposed, X, X[:, 0], features=[])
    with pytest.raises(TypeError, match="sampler must draw values given the other columns"):
        imp.given_others(opposed, X, X[:, 0], ll.Latin(5))
    with pytest.raises(ValueError, match="the model's predictions differ"):
        imp.given_others(lambda X: X[:, 1], X, X[:, 0])


# -- rows that don't exist ---------------------------------------------------------------------------------------------


def diamonds(rng, n=600):
    """As in the diamonds: the weight determines length, width and depth, and the price is by weight and clarity.

    The model, as a forest does, has learned the price from the width, and what lies beside the data it makes up.
    """
    carat = np.exp(0.5 * rng.normal(size=n))
    x, y, z = (carat ** (1 / 3) * (1 + 0.01 * rng.normal(size=n)) for _ in range(3))
    clarity = rng.integers(0, 8, n)
    X = pd.DataFrame({"carat": carat, "x": x, "y": y, "z": z, "clarity": clarity})
    return X, 4000 * carat * (1 + 0.15 * clarity) + 200 * rng.normal(size=n)


def price(X):
    return 4000 * X["y"].to_numpy() ** 3 * (1 + 0.15 * X["clarity"].to_numpy())


SCREENED = "shuffling it may create unrealistic rows (imp.extrapolation)."


def test_a_feature_that_others_determine_is_marked_before_anything_is_computed(rng):
    X, y = diamonds(rng)
    imp = ll.feature_importance(price, X, y, loss="squared_error", progress=False)
    assert imp["y"].caution.endswith(f"Correlated with carat, x and z: {SCREENED}")
    assert "clarity" not in repr(imp.cautions)
    assert imp.blocks == {"carat, x, y, z": ("carat", "x", "y", "z")}
    frame = imp.to_frame().set_index("feature")
    assert frame["block"].to_dict() == {**dict.fromkeys(["carat", "x", "y", "z"], "carat, x, y, z"), "clarity": ""}
    assert frame["caution"]["y"] in ("correlated", "2 cautions")
    assert "go together: carat, x, y and 1 more" in repr(imp)
    assert imp["y"].computed_extrapolation is None  # showing it has computed nothing
    labels = [label.get_text() for label in imp.plot().get_yticklabels()]
    assert labels[0] == "y¹ †"
    assert "clarity" in labels


def test_the_share_is_said_where_it_is_known(rng, tmp_path):
    X, y = diamonds(rng)
    imp = ll.feature_importance(price, X, y, loss="squared_error", progress=False)
    share = imp.extrapolation["y"].share
    assert share > 0.3
    said = f"{imp.extrapolation['y'].percent} of the rows with it shuffled are unlike any real one."
    assert imp["y"].caution.endswith(said)
    assert SCREENED not in imp["y"].caution
    short = f"{imp.extrapolation['y'].percent} unrealistic"
    assert imp.to_frame().set_index("feature")["caution"]["y"] == short
    assert imp.given(np.arange(300))["y"].caution.endswith(said)
    assert imp.test().set_index("feature")["caution"]["y"] == short
    assert imp.plot().get_yticklabels()[0].get_text() == f"y¹ † {imp.extrapolation['y'].percent}"
    imp.save(tmp_path / "imp")
    assert ll.load(tmp_path / "imp")["y"].caution == imp["y"].caution
    # Left out of the rows that don't exist, clarity leads, as among those that do.
    given = imp.given_others(price, X, y, random_state=0, progress=False)
    assert given._ranked[0].name == "clarity"
    assert "unlike any real one" not in given["y"].caution


@pytest.mark.parametrize("r", [0.0, 0.5, 0.85])
def test_features_that_are_not_determined_have_no_remark(rng, r):
    """R2 = r^2 < .8 for r = .85: the interval of R2 at n = 2,000 reaches from .69 to .75."""
    X = correlated(rng, 2000, r)
    imp = ll.feature_importance(opposed, X, X[:, 0], loss="squared_error", progress=False)
    assert not any("unrealistic rows" in one.caution for one in imp.values())
    with_few = ll.feature_importance(opposed, X[:5], X[:5, 0], loss="squared_error", progress=False)
    assert not any("unrealistic rows" in one.caution for one in with_few.values())


def test_a_conditional_importance_has_no_screen(rng):
    X = correlated(rng, 300, 0.99)
    imp = ll.feature_importance(opposed, X, X[:, 0], loss="squared_error", donors=ll.Within(m=8), progress=False)
    assert not any("unrealistic rows" in one.caution for one in imp.values())


def test_the_screen_of_a_sum_of_two_others(rng):
    """No two columns have a correlation above .71, and each is determined by the two others."""
    X = rng.normal(size=(400, 4))
    X[:, 2] = X[:, 0] + X[:, 1] + 0.1 * rng.normal(size=400)
    imp = ll.feature_importance(lambda X: X[:, 2], X, X[:, 2], loss="squared_error", progress=False)
    assert "Correlated with x0 and x1" in imp["x2"].caution
    assert "unrealistic rows" not in imp["x3"].caution


def test_rows_of_a_file_that_fits_into_memory_are_rows(tmp_path):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(120, 3)), columns=list("abc"))
    table["y"], path = table["a"] + table["b"], tmp_path / "rows.parquet"
    table.to_parquet(path)
    model = lambda X: np.asarray(X["a"] + X["b"])  # noqa: E731
    blocks, quiet = {"both": ["a", "b"]}, {"progress": False}
    of_file = ll.feature_importance(model, path, "y", loss="squared_error", **quiet)
    of_rows = ll.feature_importance(model, table, "y", loss="squared_error", **quiet)
    found = of_file.together(model, path, "y", blocks=blocks, **quiet)["both"]
    assert found.importance == of_rows.together(model, table, "y", blocks=blocks, **quiet)["both"].importance
    with pytest.raises(ValueError, match="rows in files can't be split into halves"):
        of_file.sufficient(model, path, "y")
