"""Pictures of results. Methods of results call these modules; each is imported when it draws for the first time.

`losslens` thus works without matplotlib until a plot is requested.
"""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # fmt: off
    from losslens.plots import (  # noqa: F401
        bands,
        cells,
        feature,
        feature_data,
        interactions,
        notebook,
        outputs,
        rankings,
        refits,
        rows,
        shapley,
        shapley_effect,
        shares,
        subgroups,
    )
    # fmt: on


def __getattr__(name: str) -> ModuleType:
    """A module of this package."""
    module = f"{__name__}.{name}"
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:  # matplotlib, say
            raise
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
