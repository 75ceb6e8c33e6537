"""Clusters of rows: planted groups are found and put into words, and where there are none nothing is claimed."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn.linear_model import LinearRegression
from sklearn.metrics import adjusted_rand_score

import losslens as ll
from losslens.rows import clusters, kmeans, rule_tree
from losslens.tables.columns import array_column
from losslens.text import in_digits

N = 300


def planted(n=N, seed=0):
    """Two groups that the model knows through different features."""
    rng = np.random.default_rng(seed)
    group = np.where(rng.random(n) < 0.4, "in", "out")
    return pd.DataFrame({"a": rng.normal(size=n), "b": rng.normal(size=n), "c": rng.normal(size=n), "group": group})


def predict(X):
    return np.where(X["group"] == "in", 5 * X["a"], 5 * X["b"])


def shares(X, model=predict, y=None, **options):
    noise = np.random.default_rng(1).normal(size=len(X))
    options = {"loss": "squared_error", "features": ["a", "b", "c"], "random_state": 0, "method": "exact"} | options
    return ll.shapley_importance(model, X, model(X) + noise if y is None else y, **options)


@pytest.fixture(scope="module")
def shapley():
    return shares(planted())


@pytest.fixture(scope="module")
def found(shapley):
    return shapley.clusters(planted(), random_state=0)


# What is found.


def test_planted_groups_are_found_with_their_rule(found):
    X = planted()
    own = X["group"].to_numpy()
    assert found.k == 2
    assert adjusted_rand_score(own, found.labels) > 0.95
    assert set(found.rules) == {"group = in", "group = out"}
    assert found.stability > 0.95
    assert (found.cluster_stability > 0.95).all()
    assert found.described > 0.95
    assert found.chance == pytest.approx((own == "out").mean())
    for rule, profile in zip(found.rules, found.profiles, strict=True):
        knows = {"group = in": 0, "group = out": 1}[rule]
        assert profile.argmax() == knows
        assert profile[knows] > 10 * np.abs(np.delete(profile, knows)).max()


def test_clusters_add_up(found, shapley):
    """Clusters are parts of all rows: the mean of their profiles, weighted by their shares, is the SFIMP."""
    np.testing.assert_allclose(found.shares @ found.profiles, shapley.sfimp, atol=1e-9)
    assert found.sizes.sum() == N
    assert list(found.sizes) == sorted(found.sizes, reverse=True)
    for c in range(found.k):
        np.testing.assert_allclose(found.profiles[c], shapley.local[found.rows(c)].mean(axis=0), atol=1e-12)
        np.testing.assert_allclose(found.profiles[c], shapley.given(found.rows(c)).sfimp, atol=1e-9)


def test_noise_and_a_continuum_are_one_cluster():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    fitted = LinearRegression().fit(X, X.sum(axis=1))
    for y in (rng.normal(size=400), X.sum(axis=1) + rng.normal(size=400), 5 * X[:, 0]):
        shapley = ll.shapley_importance(fitted, X, y)
        found = shapley.clusters(X, random_state=0)
        assert found.k == 1
        assert found.rules == ("",)
        assert np.isnan(found.stability)
        assert [one.k for one in found.tried] == [2, 3, 4, 5, 6]
        assert not any(one.stability >= 0.8 and one.parted for one in found.tried)
        np.testing.assert_allclose(found.profiles[0], shapley.sfimp)


def test_noise_cut_by_force_is_unstable():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    shapley = ll.shapley_importance(LinearRegression().fit(X, X.sum(axis=1)), X, rng.normal(size=400))
    cut = shapley.clusters(X, k=3, random_state=0)
    assert cut.k == 3
    assert cut.stability < 0.7


def test_a_feature_that_the_model_ignores_changes_nothing(shapley, found):
    """One scale for all features: a column of zeros more leaves every distance as it is."""
    X = planted()
    less = shares(X, features=["a", "b"]).clusters(X, random_state=0)
    assert shapley.local[:, 2].tolist() == [0.0] * N
    np.testing.assert_array_equal(less.labels, found.labels)


def test_the_unit_of_the_loss_changes_nothing(found):
    X = planted()
    noise = np.random.default_rng(1).normal(size=N)
    large = shares(X, lambda X: 1000 * predict(X), 1000 * (predict(X) + noise))
    again = large.clusters(X, random_state=0)
    np.testing.assert_array_equal(again.labels, found.labels)
    np.testing.assert_allclose(again.profiles, 1e6 * found.profiles, atol=1e-3)


def test_a_few_huge_losses_are_no_cluster():
    X = planted()
    y = predict(X) + np.random.default_rng(1).normal(size=N)
    y[:3] *= 1000
    found = shares(X, y=y).clusters(X, k=2, random_state=0)
    assert found.sizes.min() > 50


# What must not matter, and what must.


def test_container_and_column_order_do_not_matter(found):
    X = planted()
    turned = X[["group", "c", "b", "a"]]
    frame = pl.DataFrame(X.to_dict("list"))

    def of_polars(X):
        return predict(X.to_pandas())

    noise = np.random.default_rng(1).normal(size=N)
    for table, model in ((turned, predict), (frame, of_polars)):
        shapley = shares(table, model, predict(X) + noise, features=["c", "b", "a"])
        again = shapley.clusters(table, random_state=0)
        np.testing.assert_array_equal(again.labels, found.labels)
        assert again.rules == found.rules
        assert again.described == pytest.approx(found.described)


def test_random_state():
    X = planted()
    shapley = shares(X)
    one, same, other = (shapley.clusters(X, k=3, random_state=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(one.labels, same.labels)
    assert (one.stability, one.rules, one.described) == (same.stability, same.rules, same.described)
    assert one.stability != other.stability  # other halves


def test_rows_without_weight_belong_to_no_cluster():
    X = planted()
    weight = np.ones(N)
    weight[:40] = 0
    y = predict(X) + np.random.default_rng(1).normal(size=N)
    found = shares(X, y=y, sample_weight=weight).clusters(X, random_state=0)
    assert set(found.labels[:40]) == {-1}
    assert found.sizes.sum() == N - 40
    assert adjusted_rand_score(X["group"][40:], found.labels[40:]) > 0.95


def test_some_rows_alone(shapley, found):
    X = planted()
    some = np.arange(0, N, 2)
    part = shapley.given(some).clusters(X.iloc[some], random_state=0)
    assert adjusted_rand_score(part.labels, found.labels[some]) > 0.95


# Rules.


@pytest.mark.parametrize("kind", ["number", "date", "word", "missing"])
def test_rules_read_columns_of_every_kind(shapley, kind):
    X = planted()
    inside = (X["group"] == "in").to_numpy()
    rng = np.random.default_rng(2)
    day = pd.Timestamp("2024-03-01")
    columns = {
        "number": np.where(inside, rng.uniform(1, 2, N), rng.uniform(-2, 0, N)),
        "date": [day + pd.Timedelta(days=int(d)) for d in np.where(inside, 5, -5) + rng.integers(-4, 4, N)],
        "word": np.where(inside, "yes", np.where(rng.random(N) < 0.5, "no", "perhaps")),
        "missing": np.where(inside, np.nan, rng.normal(size=N)),
    }
    table = pd.DataFrame({"told": columns[kind], "b": X["b"]})
    found = shapley.clusters(table, random_state=0)
    assert found.columns == ("told",)
    assert found.described > 0.95
    words = {
        "number": ("≤", ">"),
        "date": ("2024", "2024"),
        "word": ("= yes", "≠ yes"),
        "missing": ("known", "missing"),
    }
    assert all(any(word in rule for word in words[kind]) for rule in found.rules)


def test_columns_that_say_nothing_describe_nothing(shapley):
    table = np.random.default_rng(5).normal(size=(N, 2))
    found = shapley.clusters(table, random_state=0)
    assert found.described < found.chance + 0.1


def test_rules_are_judged_by_rows_that_they_were_not_learned_from():
    """Labels by chance: half of the rows that rules have not seen are right, and more of those that they have."""
    from losslens.rows.clusters import describe_clusters
    from losslens.tables.frames import as_table

    right = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        labels = rng.permutation(np.arange(80) % 2)
        right.append(
            describe_clusters(as_table(rng.normal(size=(80, 4))), np.arange(80), labels, np.full(80, 1 / 80), 3, rng)[2]
        )
    assert 0.45 < np.mean(right) < 0.55  # a standard error of .01


def test_a_tree_says_both_sides_of_an_exclusive_or():
    """No single question tells anything apart from chance, two do; leaves of one cluster are joined by "or"."""
    rng = np.random.default_rng(0)
    X = rng.integers(0, 2, (200, 2)).astype(float)
    X[:10, 0] = X[:10, 1] = 1.0  # a little more of one kind, so that the first question is worth asking
    labels = (X[:, 0] != X[:, 1]).astype(int)
    columns = {name: array_column(X[:, j]).distinct for j, name in enumerate("ab")}
    tree = rule_tree.grow(columns, labels, np.ones(200), np.ones(200, bool), 2)
    assert rule_tree.in_words(tree, 2) == (
        "(a = 0 and b = 0) or (a = 1 and b = 1)", "(a = 0 and b = 1) or (a = 1 and b = 0)",
    )  # fmt: skip
    np.testing.assert_array_equal(rule_tree.predict(tree, 200), labels)
    shallow = rule_tree.grow(columns, labels, np.ones(200), np.ones(200, bool), 1)
    assert rule_tree.predict(shallow, 200).shape == (200,)


# k-means and its judges.


def test_k_means_with_weights_is_k_means_of_repeated_points():
    rng = np.random.default_rng(0)
    points = np.concatenate([rng.normal(size=(20, 2)), 8 + rng.normal(size=(20, 2))])
    weight = rng.integers(1, 4, 40)
    one = kmeans.settle(points, weight.astype(float), points[[0, 20]])
    repeated = np.repeat(points, weight, axis=0)
    other = kmeans.settle(repeated, np.ones(len(repeated)), points[[0, 20]])
    np.testing.assert_allclose(one.centres, other.centres)
    assert one.cost == pytest.approx(other.cost)


def test_no_cluster_stays_empty():
    points = np.array([[0.0], [0.1], [5.0], [5.1]])
    found = kmeans.settle(points, np.ones(4), np.array([[0.0], [100.0]]))
    assert found.labels.tolist() in ([0, 0, 1, 1], [1, 1, 0, 0])


def test_adjusted_rand_agrees_with_scikit_learn():
    rng = np.random.default_rng(0)
    for _ in range(5):
        one, other = rng.integers(0, 4, 50), rng.integers(0, 3, 50)
        assert kmeans.adjusted_rand(one, other) == pytest.approx(adjusted_rand_score(one, other))
    assert kmeans.adjusted_rand(np.zeros(5, int), np.zeros(5, int)) == 1


def test_a_valley_parts_two_heaps_and_no_long_one():
    rng = np.random.default_rng(0)
    heap = rng.normal(size=(500, 2))
    for points, apart in ((heap, False), (heap * [9, 1], False), (rng.uniform(size=(500, 2)), False)):
        found = kmeans.fit(points, np.ones(500), 2, 5, rng)
        assert kmeans.separated(points, np.ones(500), found) is apart
    two = np.concatenate([heap, heap + np.array([7, 0])])
    assert kmeans.separated(two, np.ones(1000), kmeans.fit(two, np.ones(1000), 2, 5, rng))
    assert not kmeans.separated(two, np.ones(1000), kmeans.fit(two, np.ones(1000), 3, 5, rng))


# What is refused.


def test_bad_input_is_refused_with_a_reason(shapley):
    X = planted()
    with pytest.raises(ValueError, match="X has 299 rows, the result 300"):
        shapley.clusters(X[1:])
    for name in ("k", "depth", "starts"):
        for bad in (0, 1.5, True, "2"):
            with pytest.raises(ValueError, match=f"{name} is a whole number from 1 on"):
                shapley.clusters(X, **{name: bad})
    nothing = shares(X, lambda X: np.zeros(len(X)), np.arange(len(X), dtype=float))
    with pytest.raises(ValueError, match="2 clusters need at least 2 rows with different shares; there are 1"):
        nothing.clusters(X, k=2)
    assert nothing.clusters(X).k == 1
    with pytest.raises(ValueError, match="cluster is a whole number from 0 to 1; got 2"):
        shapley.clusters(X, random_state=0).rows(2)


# As a table, in a file, as text.


def test_frame_file_and_text(tmp_path, found):
    frame = found.to_frame()
    assert list(frame.columns) == ["cluster", "n", "share", "stability", "rule", "sfimp_a", "sfimp_b", "sfimp_c"]
    assert frame["n"].tolist() == found.sizes.tolist()
    found.save(tmp_path / "clusters")
    again = ll.load(tmp_path / "clusters")
    pd.testing.assert_frame_equal(again.to_frame(), frame)
    assert again.tried == found.tried
    assert repr(again) == repr(found)
    assert all(rule in repr(found) for rule in found.rules)


def test_jaccard_indices_are_those_of_sets():
    rng = np.random.default_rng(0)
    one, other = rng.integers(0, 3, 50), rng.integers(0, 4, 50)
    sets = [[set(np.flatnonzero(labels == k)) for k in range(4)] for labels in (one, other)]
    found = kmeans._jaccard(one, other, 4)
    for k, mine in enumerate(sets[0]):
        assert found[k] == max(len(mine & theirs) / max(1, len(mine | theirs)) for theirs in sets[1])


def test_shares_are_scaled_by_the_weighted_median_of_their_lengths():
    """Lengths 1, 2, 4 of weight .2, .2, .6: half of the weight lies below and above 4."""
    local, weight = np.array([[0.0, 1.0], [2.0, 0.0], [0.0, -4.0]]), np.array([0.2, 0.2, 0.6])
    np.testing.assert_allclose(clusters.compress_shares(local, weight), np.arcsinh(local / 4))


def test_columns_that_split_equally_well_are_told_apart_by_name():
    labels, weight = np.repeat([0, 1], 30), np.ones(60)
    column = array_column(np.repeat([0.0, 1.0], 30)).distinct
    for names in (("b", "a"), ("a", "b")):
        tree = rule_tree.grow(dict.fromkeys(names, column), labels, weight, np.ones(60, bool), 1)
        assert tree.split.yes.column == "a"


def test_text_names_the_three_leading_features_of_a_cluster(found):
    profile = found.profiles[0]
    leading = [f"{found.features[j]} {in_digits(profile[j])}" for j in np.argsort(-np.abs(profile), kind="stable")]
    assert ", ".join(leading[:3]) in repr(found)


@pytest.mark.parametrize("wrong", [1, 4])
def test_a_split_must_classify_a_hundredth_of_the_rows_right_beyond_the_others(wrong):
    """Of 300 rows, 1 and 4 more are right with the split; 3 are a hundredth."""
    labels = np.zeros(300, int)
    labels[:31] = 1  # left of the split 31 rows of the rare cluster, and some others
    side = np.zeros(300)
    side[: 31 + 31 - wrong] = 1.0
    tree = rule_tree.grow({"a": array_column(side).distinct}, labels, np.ones(300), np.ones(300, bool), 1)
    assert (tree.split is not None) == (wrong == 4)


def test_the_share_that_rules_describe_counts_weights():
    """One column tells the clusters apart but for one row; a row counts as much as it weighs."""
    from losslens.rows.clusters import describe_clusters
    from losslens.tables.frames import as_table

    labels = np.arange(200) % 2
    X = labels[:, None].astype(float)
    X[0] = 1.0
    weight = np.ones(200)
    weight[0] = 40.0
    rules, columns, right = describe_clusters(
        as_table(X), np.arange(200), labels, weight / weight.sum(), 3, np.random.default_rng(0)
    )
    assert right == pytest.approx(199 / 239)
    assert columns == ("x0",)
    assert all(rules)
