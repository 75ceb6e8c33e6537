"""Linear models, of scikit-learn and of statsmodels: estimator -> coefficients of the columns of its input matrix."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from losslens.engines.additive import Additive
from losslens.engines.base import Declined, Mean, ReadModel, Site, Wrapped
from losslens.engines.linked_sums import SEVERAL_CLASSES, LinkedLinear
from losslens.engines.readers.pipelines import UnwrappedModel, is_single
from losslens.engines.readers.recognition import class_names, kind_of
from losslens.engines.sum_losses import Link
from losslens.losses import Loss, Response
from losslens.typing import Floats


@dataclass(frozen=True, eq=False)
class Linear(LinkedLinear):
    """A single sum without a link: ``intercept + matrix @ coef.T`` is the prediction."""

    link: Link = "identity"
    response: Response = "values"
    kind: ClassVar[str] = "additive"
    donor_sums: ClassVar[str] = "moments"

    def engine(self, unwrapped: UnwrappedModel, site: Site) -> Additive:
        """What each column adds."""
        (total,) = self.sums(unwrapped, site.table)
        return replace(total, in_single=self.single and unwrapped.gives_single(site.table))

    def then(self, wrapped: Wrapped) -> ReadModel:
        """Scaled and shifted, and inside a link."""
        if wrapped.form is None:
            return super().then(wrapped)
        link, slope, shift = wrapped.form
        coef, intercept = slope * self.coef, slope * self.intercept + shift
        if link == "identity":
            return replace(self, coef=coef, intercept=intercept)
        response: Response = "probabilities" if link == "logistic" else "values"
        return LinkedLinear(coef, intercept, link, response, self.functions, self.single)

    @classmethod
    def mean(cls, parts: Sequence[Self], spec: Mean) -> Self:
        """The mean of the coefficients of each column."""
        if any(part.functions is not None for part in parts):
            raise Declined("means of sums of functions of columns are not supported")
        coef, total = np.zeros((1, spec.width)), sum(member.weight for member in spec.members)
        for part, member in zip(parts, spec.members, strict=True):
            columns = np.arange(spec.width) if member.columns is None else member.columns
            np.add.at(coef[0], columns, member.weight / total * part.coef[0])
        terms = (member.weight / total * part.intercept for part, member in zip(parts, spec.members, strict=True))
        return cls(coef, np.asarray(sum(terms)), single=any(part.single for part in parts))

    def check_parts(self, loss: Loss | None) -> None:
        """Sums of squares can be added up over parts."""
        if self.functions is not None:
            raise Declined("sums of functions of columns are not computed part by part; pass a sample of the rows")
        if loss is not None and (loss.custom or loss.name != "squared_error"):
            raise Declined("of additive models that are read part by part the squared error has a closed form")


def read_linear(estimator: Any, response: Response, output: int | None = None) -> Linear | LinkedLinear | None:
    """The coefficients of a response; None if it isn't a sum over columns, Declined if it has several targets.

    output: which one to read of a model with several.

    Nothing is compared with the model's predictions here: the caller, which has a table, does that.
    """
    ancestors = frozenset(class_names(estimator))
    if response == "values" and "sklearn.RANSACRegressor" in ancestors:
        return read_linear(_fitted(estimator, "estimator_"), response, output)
    readable = {"values": _REGRESSORS, "scores": _CLASSIFIERS}.get(response, frozenset())
    if not (readable & ancestors and _is_linear(estimator, ancestors)):
        return None
    rows, intercepts, single = _coefficients(estimator)  # copies: partial_fit changes the model's arrays in place
    if output is not None and output < len(rows):
        rows, intercepts = rows[[output]], intercepts[[output]]
    if len(rows) != 1:
        if "sklearn.BaseLibSVM" in ancestors:
            raise Declined(f"{type(estimator).__name__} compares pairs of classes: its scores are no sums over columns")
        if response == "scores":
            return LinkedLinear(rows, intercepts, "identity", response, single=single)
        raise Declined(f"{type(estimator).__name__} predicts {len(rows)} targets; a closed form needs a single one")
    return Linear(rows, intercepts, single=single)


def read_linked(estimator: Any, response: Response) -> LinkedLinear | None:
    """Coefficients inside a link: probabilities and labels of linear classifiers, values of generalised linear models.

    Whether it is this link is not read here: the caller compares predictions.
    """
    ancestors = frozenset(class_names(estimator))
    if "sklearn.OneVsRestClassifier" in ancestors:
        return _one_vs_rest(estimator, response)
    if not _LINKED.get(response, frozenset()) & ancestors:
        return None
    if response == "probabilities" and getattr(estimator, "loss", "log_loss") != "log_loss":
        raise Declined(f"{type(estimator).__name__} with loss={estimator.loss!r} has no logistic link")
    coef, intercept, single = _coefficients(estimator)
    if response == "values":
        return LinkedLinear(coef, intercept, "log", response, single=single)
    if len(coef) == 1:
        return LinkedLinear(coef, intercept, "sign" if response == "labels" else "logistic", response, single=single)
    against_rest = "sklearn.SGDClassifier" in ancestors or getattr(estimator, "multi_class", "") == "ovr"
    against_rest |= getattr(estimator, "solver", "") == "liblinear"  # of releases that take it for several classes
    if against_rest or response == "labels":
        raise Declined(SEVERAL_CLASSES)
    return LinkedLinear(coef, intercept, "softmax", response, single=single)


def _coefficients(estimator: Any) -> tuple[Floats, Floats, bool]:
    """Copies of the coefficients, (K, C), and the intercepts, (K,), and whether the coefficients are float32."""
    coef = _fitted(estimator, "coef_")
    rows = np.atleast_2d(np.array(coef.toarray() if hasattr(coef, "toarray") else coef, np.float64))
    intercept = np.asarray(_fitted(estimator, "intercept_"), np.float64).reshape(-1)
    return rows, np.broadcast_to(intercept, len(rows)).copy(), is_single(coef)


def _one_vs_rest(estimator: Any, response: Response) -> LinkedLinear | None:
    """The classifier of two classes, which have a single one."""
    if response not in ("probabilities", "labels"):
        return None
    first, *others = _fitted(estimator, "estimators_")
    linked = read_linked(first, response)
    if linked is not None and others:
        raise Declined(SEVERAL_CLASSES)
    return linked


def _is_linear(estimator: Any, ancestors: frozenset[str]) -> bool:
    """Whether its options leave it linear: a kernel or a link function may not."""
    if "sklearn.BaseLibSVM" in ancestors:
        return bool(estimator.kernel == "linear")
    if "sklearn.TweedieRegressor" in ancestors:
        return bool(estimator.link == "identity" or (estimator.link == "auto" and estimator.power <= 0))
    return True


def _fitted(estimator: Any, name: str) -> Any:
    try:
        return getattr(estimator, name)
    except AttributeError as error:
        raise Declined(f"{type(estimator).__name__} has no {name}; is it fitted?") from error


def _named(names: str) -> frozenset[str]:
    return frozenset(f"sklearn.{name}" for name in names.split())


# Multi-task, cross-validated and multi-output variants are subclasses of these: Lasso is an ElasticNet, LassoLars and
# its variants are Lars, and LogisticRegressionCV is a LogisticRegression.
_REGRESSORS = _named("""
    LinearRegression Ridge RidgeCV ElasticNet ElasticNetCV LassoCV MultiTaskElasticNetCV MultiTaskLassoCV Lars
    OrthogonalMatchingPursuit OrthogonalMatchingPursuitCV BayesianRidge ARDRegression HuberRegressor TheilSenRegressor
    QuantileRegressor SGDRegressor PassiveAggressiveRegressor LinearSVR SVR NuSVR TweedieRegressor
""")
_CLASSIFIERS = _named("""
    LogisticRegression RidgeClassifier RidgeClassifierCV SGDClassifier Perceptron PassiveAggressiveClassifier
    LinearDiscriminantAnalysis LinearSVC SVC NuSVC
""")
_LINKED: dict[Response, frozenset[str]] = {
    "values": _named("PoissonRegressor GammaRegressor TweedieRegressor"),
    "probabilities": _named("LogisticRegression SGDClassifier LinearDiscriminantAnalysis"),
    "labels": _CLASSIFIERS - _named("SVC NuSVC"),  # which vote
}


# Results of statsmodels: linear, generalised linear and discrete models fitted to a matrix, by no formula.


_RESULTS = frozenset(
    f"statsmodels.{name}Wrapper" for name in ("GLMResults", "BinaryResults", "PoissonResults", "RegressionResults")
)
_LINKS: dict[str, Link] = {
    "statsmodels.Identity": "identity",
    "statsmodels.Log": "log",
    "statsmodels.Logit": "logistic",
}


def read_statsmodels(results: Any, response: Response) -> LinkedLinear | None:
    """Coefficients and link; None if these are no such results. The caller compares predictions."""
    if kind_of(results) not in _RESULTS or response not in ("values", "probabilities"):
        return None
    model, inner = results.model, results._results
    if "predict" in vars(inner):
        raise Declined("predict of its results was replaced in this object: what it does is unknown")
    if getattr(model, "formula", None) is not None:
        raise Declined("it was fitted by a formula: what it makes of the columns is not read; fit it to a matrix")
    link = _link(model)
    coef, single = np.array(inner.params, float)[None], is_single(inner.params)
    if link == "identity" and response == "values":
        return Linear(coef, np.zeros(1), single=single)
    if response == "probabilities" and link != "logistic":
        return None
    return LinkedLinear(coef, np.zeros(1), link, response, single=single)


def _link(model: Any) -> Link:
    if kind_of(model) in ("statsmodels.OLS", "statsmodels.WLS", "statsmodels.GLS"):
        return "identity"
    link = model.family.link if hasattr(model, "family") else getattr(model, "link", None)
    name = None if link is None else kind_of(link)
    if name not in _LINKS:
        raise Declined(f"the link of its {type(model).__name__} is none that is read: identity, log, logit")
    return _LINKS[name]
