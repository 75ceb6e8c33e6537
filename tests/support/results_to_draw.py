"""Results of a linear model whose features matter less and less, for pictures."""

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression
from sklearn.metrics import get_scorer

import losslens as ll

N = 40


def table(p=4, n=N, name="x{}".format):
    rng = np.random.default_rng(0)
    return pd.DataFrame(rng.normal(size=(n, p)), columns=[name(j) for j in range(p)])


def slopes(p):
    return 10 * 0.75 ** np.arange(p)


def response(X):
    return X.to_numpy() @ slopes(X.shape[1]) + np.random.default_rng(1).normal(scale=5, size=len(X))


def shapley(X, weights=None, **asked):
    weights = slopes(X.shape[1]) if weights is None else weights
    asked = {"loss": "squared_error", "random_state": 0} | asked
    return ll.shapley_importance(lambda X: X.to_numpy() @ weights, X, response(X), **asked)


def importance(X, **asked):
    weights = slopes(X.shape[1])
    asked = {"loss": "squared_error", "random_state": 0} | asked
    return ll.feature_importance(lambda X: X.to_numpy() @ weights, X, response(X), **asked)


def three_models(p=4, name="x{}".format):
    X = table(p, name=name)
    wrong = slopes(p) * np.where(np.arange(p) == 1, -0.6, 1.0)
    return {"good": shapley(X), "half": shapley(X, slopes(p) / 2), "wrong": shapley(X, wrong)}


def scored():
    X = table(3)
    y = response(X)
    return ll.shapley_importance(LinearRegression().fit(X, y), X, y, loss=get_scorer("r2"), random_state=0)


def results(X):
    weights = slopes(X.shape[1])

    def predict(X):
        return X.to_numpy() @ weights

    def both(X):
        return np.column_stack([predict(X), -predict(X)])

    imp, effects, shared = importance(X), ll.feature_effect(predict, X), shapley(X)
    scores = ll.feature_importance(LinearRegression().fit(X, response(X)), X, response(X), loss=get_scorer("r2"))
    return [
        imp,
        imp[X.columns[0]],
        scores,
        scores[X.columns[0]],
        shared,
        shared.curve(X.columns[0]),
        shared.curve(X.columns[0], by="donor"),
        *([shared.interactions] if X.shape[1] > 1 else []),
        effects,
        effects[X.columns[0]],
        ll.shapley_effect(predict, X, [0]),
        ll.shapley_effect(predict, X, list(range(min(3, len(X))))),
        *learners(X, predict),
        *([imp.regions(X, target="importance", random_state=0, permutations=19)] if len(X) > 12 else []),
        *([imp.extrapolation] if len(X) > 20 else []),  # with fewer there is nothing to draw
        imp[X.columns[0]].row_influence,
        *([imp.over(range(len(X)))] if len(X) > 1 else []),
        ll.weak_segments(predict, X, response(X), loss="squared_error"),
        *([shared.gap(np.arange(len(X)) < len(X) // 2)] if len(X) > 5 else []),
        imp.by(np.arange(len(X)) % 2),
        imp[X.columns[0]].by(np.arange(len(X)) % 2),
        effects[X.columns[0]].by(np.arange(len(X)) % 2),
        ll.feature_importance(both, X, np.column_stack([response(X)] * 2), loss="squared_error").outputs,
        *([imp.together(predict, X, response(X), blocks={"b": X.columns[:2]})] if X.shape[1] > 1 else []),
        *([imp.sufficient(predict, X, response(X), random_state=0)] if X.shape[1] > 1 and len(X) > 20 else []),
        shared.rank_rows(),
        shared.clusters(X, random_state=0),
    ]


def learners(X, predict):
    """Results that take several models, or refits."""
    if len(X) < 12:
        return []
    y = response(X)
    refits = ll.feature_importance_cv(LinearRegression(), X, y, cv=3, random_state=0)
    return [
        refits,
        refits.curve(refits.features[0]),
        ll.permuted_target_test(LinearRegression(), X, y, cv=2, permutations=5, random_state=0),
        ll.leave_one_covariate_out(LinearRegression(), X, y, cv=2, how="constant", random_state=0),
        ll.conditional_predictive_impact(
            predict, X, y, lambda X, columns, rng: X.iloc[rng.permutation(len(X))], loss="squared_error"
        ),
        ll.compare({"one": predict, "other": lambda X: predict(X) / 2}, X, y, loss="squared_error", shapley=False),
        ll.good_models({"one": predict, "other": lambda X: 0.9 * predict(X)}, X, y, loss="squared_error", within=0.5),
    ]
