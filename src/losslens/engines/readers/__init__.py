"""Fitted tree models as sums of trees. What a model is, its class name tells: no estimator library is imported."""

from __future__ import annotations

from collections.abc import Callable

from losslens.engines.readers import boosters, scikit
from losslens.engines.readers.ensemble import TIES, Declined, Ensemble
from losslens.losses import Response
from losslens.models import Model

__all__ = ["read"]

Reader = Callable[[Model, Response], Ensemble | None]

_READERS: dict[str, Reader] = {
    **{f"sklearn.{name}": scikit.read_tree for name in scikit.TREES},
    **{f"sklearn.{name}": scikit.read_forest for name in scikit.FORESTS},
    **{f"sklearn.{name}": scikit.read_boosting for name in scikit.BOOSTING},
    **{f"sklearn.{name}": scikit.read_histogram_boosting for name in scikit.HISTOGRAM_BOOSTING},
    **{f"xgboost.{name}": boosters.read_xgboost for name in boosters.XGBOOST},
    **{f"lightgbm.{name}": boosters.read_lightgbm for name in boosters.LIGHTGBM},
}


def read(model: Model, response: Response) -> Ensemble | None:
    """The model as a sum of trees that gives this response; None where it is no tree model.

    `Declined` is raised where it is one but can't be read exactly. The arrays may be views of the model's own.
    """
    native = model.native
    # The class itself, not its ancestors: a class of the user's own may predict something else. So may an instance.
    library, name = type(native).__module__.partition(".")[0], type(native).__name__
    reader = _READERS.get(f"{library}.{name}")
    own = {"predict", "predict_proba", "decision_function"} & getattr(native, "__dict__", {}).keys()
    if reader is None or own or response not in model.responses:
        return None
    if response != "values" and model.classes is not None and len(model.classes) < 2:
        raise Declined("it has seen one class only")
    try:
        found = reader(model, response)
    except (AttributeError, KeyError) as error:  # not fitted, or a version that stores its trees in another way
        raise Declined(f"this version of {library} stores its trees in a way that isn't known here") from error
    if response == "labels" and found is not None and found.outputs > 1 and found.value.shape[1] == 1:
        raise Declined(TIES)  # scores that are equal but for rounding are common in boosting of several classes
    return found
