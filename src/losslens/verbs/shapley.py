"""`shapley_importance` and `shapley_effect`: Shapley values of the model's performance, and of single predictions.

The steps of `shapley_importance`, one line each in `_shares`:

- the game: its players, donors and loss, every argument checked, `check_request` in shapley/request;
- the way to compute its shares, the first that fits, `choose` in shapley/ways;
- the shares, by that way, and the result, `result_by` in shapley/ways.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from losslens.donors.designs import Design
from losslens.losses import Loss, OutputsLoss, is_scorer, names_of
from losslens.models import as_model
from losslens.passes.allowance import limits_of
from losslens.passes.task import Options, default_loss, opened, picked
from losslens.results.shapley import ShapleyImportance
from losslens.results.shapley_effect import ShapleyEffect
from losslens.shapley import effects, outputs, scores, stopping
from losslens.shapley.request import check_request
from losslens.shapley.stopping import Absolute, Method, ShapleySettings
from losslens.shapley.ways import choose, result_by
from losslens.tables.checks import is_one_of
from losslens.tables.leakage import warn_of_target
from losslens.verbs.running import verb


@verb
def shapley_importance(
    model: Any,
    X: Any,
    y: Any,
    *,
    loss: str | Loss | Callable[..., Any] | Sequence[Any] | None = None,
    features: Any = None,
    method: Method = "auto",
    donors: str | Design = "auto",
    precision: float | Absolute | Literal["ranks"] | None = None,
    budget: str | int | None = None,
    groups: Any = None,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> ShapleyImportance:
    """Shapley feature importance (SFIMP): the model's performance, distributed to the features by Shapley values.

    ``sum over features of SFIMP_j = GE_0 - GE_P``, the error with all features replaced less the error with none.

    Parameters
    ----------
    model, X, y, loss, sample_weight
        As in `feature_importance`. A scikit-learn scorer gives the global shares only. A list of losses gives a dict
        from their names to results, each computed by itself.
    features
        The players: columns, or ``{"name": [columns]}`` for columns that play together; no column in two of them.
        Columns that are not named keep their own values.
    method
        ``"auto"``: exact where that is cheap, otherwise walks. Of trees, linear models and logistic or log links of
        them, importances are covariances, exact for any number of features, where the loss is linear in y on the scale
        of their sums (squared error, Brier score, log loss, Poisson deviance). Otherwise all coalitions are cheap
        inside trees, and of any model where they take at most a million predictions a feature, or `budget`.
        Shares of single rows and donors come with the importances where that takes about a second more; without them
        `local`, `given`, `by`, `curve` and `interactions` raise an error.
        ``"rows"``: the same, and shares of single rows however long they take; beyond about 12 features they come from
        walks, with a Monte-Carlo error (`local_error`) and exact totals, and `interactions`, which need every
        coalition, raise. ``"totals"``: single rows only where they come anyway. ``"exact"``: exact, or an error that
        states the cost. ``"walk"``: random walks from donors to rows.
        ``Paper(m_feat, m_obs)``: the paper's own algorithm, with so many orders of features and permutations of rows.
        ``Sage()``: SAGE values, of predictions that are averaged over the donors before the loss.
    donors
        ``"auto"`` or ``"all"``: every pair of rows; ``Derangements()``: pairs of different rows; ``Latin(m)``,
        ``Permutations(m)``, ``Derangements(m)``: a sample of donors, for walks m sweeps. ``Sage()``: all rows
        (walks with ``"auto"``: 512 of them, where there are more), or ``Grid(m)``. A sampler (`Within`, `Residual`, a
        function): features outside a coalition are drawn given those inside.
    precision
        Walk until simultaneous 95% confidence intervals of all features have at most this half-width: a share of the
        total such as 0.02, or ``Absolute(value)``. Or ``"ranks"``: until the leading five ranks are settled, as in
        `feature_importance`.
    budget
        The most predictions; or a time, such as ``"10 min"``: as many rows, drawn at random, and walks as it affords.
        Without `budget` and `precision`, walks end when their Monte-Carlo variance is below a tenth of the sampling
        variance.
    groups
        A label for each row: rows of the same group are not donors of each other, and standard errors are those of
        independent groups, as in `feature_importance`. Where importances are covariances (see `method`), or where the
        shares of all pairs are computed and fit into a fourth of `memory`: then also single rows, with
        ``method="rows"``.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(200, 3))
    >>> shap = ll.shapley_importance(lambda X: X[:, 0] * X[:, 1], X, X[:, 0] * X[:, 1], loss="squared_error")
    >>> bool(abs(shap.sfimp.sum() - (shap.error_none - shap.error_all)) < 1e-9), shap.sfimp[2].item()
    (True, 0.0)
    """
    options = picked(Options, locals())
    warn_of_target(X, y)
    predictions, limits = (None, limits_of(budget)) if isinstance(budget, str) else (budget, None)
    settings = ShapleySettings(method, precision, predictions, limits)
    if isinstance(loss, (list, tuple)):
        by_loss: Any = {name: _shares(model, X, y, one, settings, options) for name, one in names_of(loss).items()}
        return by_loss  # type: ignore[no-any-return]  # most calls have one loss
    return _shares(model, X, y, loss, settings, options)


def share_out(model: Any, X: Any, y: Any, loss: Any, settings: ShapleySettings, options: Options) -> ShapleyImportance:
    """`shapley_importance` as a part of another verb, which Ctrl-C ends: it has no place for a partial result."""
    shares = _shares(model, X, y, loss, settings, options)
    if not shares.complete:
        raise KeyboardInterrupt
    return shares


def _shares(model: Any, X: Any, y: Any, loss: Any, settings: ShapleySettings, options: Options) -> ShapleyImportance:
    """`shapley_importance` with checked options; after Ctrl-C from the walks that are done."""
    wrapped = as_model(model)
    limits = settings.limits or options.limits
    if is_scorer(loss):
        if limits is not None:
            raise ValueError(f"a time as budget is for losses, and {loss!r} is a score: pass a number of predictions")
        if options.groups is not None:
            raise ValueError("groups= needs a loss; a scorer judges all rows at once")
        if settings.method == "rows":
            raise ValueError(f"method='rows': the scorer {loss!r} judges all rows at once; use a loss")
        return scores.score_shapley(wrapped, X, y, loss, settings, options)
    X, y, options, files = opened(wrapped, X, y, options)
    if files is not None and limits is not None:
        raise ValueError("budget is for rows in memory, and these are read in parts: pass some of them as a table")
    if files is not None:
        from losslens.shapley import covariance_parts  # imports compiled engines

        return covariance_parts.shares(wrapped, files, default_loss(wrapped, loss), settings, options)
    game = check_request(wrapped, X, y, loss, settings, options)
    if limits is not None:
        from losslens.shapley.in_time import importance_in_time  # most calls have no limits

        return importance_in_time(game, limits)
    if isinstance(game.loss, OutputsLoss):
        return outputs.result_of(wrapped, X, game, options)
    way, _ = choose(game)
    return result_by(way, game)


@verb
def shapley_effect(
    model: Any,
    X: Any,
    rows: Any,
    *,
    features: Any = None,
    target: Any = None,
    scale: Literal["response", "raw"] = "response",
    method: Literal["auto", "exact", "walk"] = "auto",
    donors: str | Design = "auto",
    budget: int | None = None,
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> ShapleyEffect:
    """Shapley values of predictions: what each feature adds to a row's prediction, with the rows of X as donors.

    ``sum over features of phi_j(x) = f(x) - mean over donors k of f(x_k)``

    Parameters
    ----------
    model, features
        As in `shapley_importance`.
    X
        The donors: the background data.
    rows
        The rows to explain: positions in X (a mask, a list, one number), or a table with the columns of X.
    target
        The class whose probability is explained; for two classes the second by default.
    scale
        ``"response"``: what the model predicts, of classifiers probabilities. ``"raw"``: of classifiers the scores that
        they turn into probabilities, log-odds of two classes for most. On this scale boosted trees and linear
        classifiers add, so that values are exact at any number of features; it is the scale of most SHAP values.
    method
        ``"auto"``: exact where that is cheap (additive models and trees in closed form; all coalitions where that takes
        at most a million predictions a feature, or `budget`), otherwise walks. Of trees and linear models inside a
        link (probabilities of boosted trees and of logistic regression) the walks know the exact values on the raw
        scale, and subtract what these explain.
    donors
        ``"auto"`` or ``"all"``: every row of X; ``Grid(m)``: m of them, drawn at random.
    budget
        The most predictions; by default walks end when the errors are small relative to the spread of the predictions.
    sample_weight
        Weights of the donors.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.array([[0.0, 0.0], [2.0, 4.0]])
    >>> ll.shapley_effect(lambda X: X[:, 0] + X[:, 0] * X[:, 1], X, 1).local
    array([[3., 2.]])

    Of a classifier on the scale of log-odds, where a logistic regression adds up columns times coefficients:

    >>> from sklearn.linear_model import LogisticRegression
    >>> model = LogisticRegression().fit(X, [0, 1])
    >>> log_odds = ll.shapley_effect(model, X, 1, scale="raw")
    >>> log_odds.response, bool(np.allclose(log_odds.local, (X[1] - X.mean(axis=0)) * model.coef_))
    ('log-odds', True)
    """
    options = Options(
        features=features, donors=donors, random_state=random_state, n_jobs=n_jobs, memory=memory, progress=progress
    )
    return effects.explain(checked_effects(model, X, rows, target, scale, method, budget, sample_weight, options))


def checked_effects(
    model: Any, X: Any, rows: Any, target: Any, scale: Any, method: Any, budget: Any, weight: Any, options: Options
) -> effects.EffectRequest:
    """A call of `shapley_effect`, with all of its arguments checked."""
    if not is_one_of(method, ("auto", "exact", "walk")):
        raise ValueError(f"method is 'auto', 'exact' or 'walk'; got {method!r}")
    if not is_one_of(scale, ("response", "raw")):
        raise ValueError(f"scale is 'response' or 'raw'; got {scale!r}")
    stopping.check(None, budget)
    return effects.check_request(as_model(model), X, rows, target, scale, method, budget, weight, options)
