"""The arguments that all verbs share, checked once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from inspect import signature
from typing import Any, TypeVar

from losslens.tables import checks

Held = TypeVar("Held")


@dataclass(frozen=True, eq=False, kw_only=True)
class Options:
    """What to replace, by whose values, with which weights, and how to run; users read it in `feature_importance`.

    What needs the table (features, donors, weights, groups) is checked with it. A copy made by `dataclasses.replace`
    has the same seed.
    """

    features: Any = None
    donors: Any = "auto"
    sample_weight: Any = None
    groups: Any = None
    random_state: Any = None  # once checked, a seed
    n_jobs: int | None = None
    memory: Any = "1 GiB"  # once checked, bytes
    progress: bool | None = None
    device: str | None = None

    def __post_init__(self) -> None:
        checks.check_workers(self.n_jobs, self.progress)
        checks.check_device(self.device)
        object.__setattr__(self, "random_state", checks.entropy(self.random_state))
        object.__setattr__(self, "memory", checks.memory_bytes(self.memory))


def picked(kind: type[Held], arguments: Mapping[str, Any]) -> Held:
    """Those among a verb's arguments that a dataclass holds."""
    return kind(**{name: arguments[name] for name in signature(kind).parameters if name in arguments})
