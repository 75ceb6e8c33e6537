"""Clusters of rows with similar local importances: their profiles, rules that describe them, and stability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens import plots
from losslens.plots.look import Look, draws
from losslens.results.base import Result, Stored
from losslens.results.table import ResultTable
from losslens.tables.checks import is_one_of
from losslens.tables.row_labels import Labels, row_names
from losslens.text import Sentence, in_digits, shares_in_words
from losslens.typing import Axes, Colors, FeatureLabels, Floats, Indices, Sort

LEADING = 3  # features with the largest means that text shows for each cluster


@dataclass(frozen=True)
class Tried(Stored):
    """A number of clusters that was tried."""

    k: int
    stability: float
    parted: bool  # every two clusters are separated by a gap in density, and none is tiny


@dataclass(frozen=True, eq=False, repr=False)
class Clusters(Result):
    """Clusters of rows with similar local importances, the largest first.

    `stability`: the rows are split into halves ten times, each half is clustered, and all rows are assigned to both
    sets of clusters; the mean adjusted Rand index of the two assignments, 1 where they are equal, 0 by chance; NaN for
    a single cluster. `described`: the share of rows that rules learnt from the other half of the rows assign to their
    cluster; `chance` is the share of the largest cluster.

    `to_frame()` has one row a cluster: cluster, n, share, stability, rule, and its mean local SFIMP of each feature.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(300, 3))
    >>> X[:, 2] = X[:, 2] > 0
    >>> f = lambda X: np.where(X[:, 2] == 1, X[:, 0], 10 + X[:, 1])
    >>> clusters = ll.shapley_importance(f, X, f(X), loss="squared_error").clusters(X, k=2, random_state=0)
    >>> clusters.k, clusters.profiles.shape, bool(len(clusters.rows(0)) == clusters.sizes[0])
    (2, (2, 3), True)
    """

    labels: Indices  #: the cluster of each row, (n,): 0 for the largest; -1 for rows with weight 0 or without donors
    weight: Floats  #: weights of the rows, (n,): they sum to one
    profiles: Floats  #: mean local SFIMP of each cluster and feature, (k, p)
    rules: tuple[str, ...]  #: a rule for each cluster; "" where there is none
    columns: tuple[str, ...]  #: columns of X that occur in rules
    described: float  #: the share of rows that rules learnt from other rows assign to their cluster
    stability: float  #: mean adjusted Rand index of clusterings of halves
    cluster_stability: Floats  #: mean Jaccard index of each cluster with the most similar one of a half, (k,)
    tried: tuple[Tried, ...]
    features: tuple[str, ...]  #: names of the features
    title: str  #: name of the loss
    backend: str
    row_labels: Labels | None = None  # (n,), of a pandas index

    def _part(self, name: str) -> Floats:
        """The mean local SFIMP of one feature in each cluster, (k,)."""
        return self.profiles[:, self.features.index(name)]

    _internal = ("tried",)

    @property
    def k(self) -> int:
        """The number of clusters."""
        return len(self.profiles)

    @property
    def sizes(self) -> Indices:
        """Rows in each cluster, (k,)."""
        return np.bincount(self.labels[self.labels >= 0], minlength=self.k)

    @property
    def shares(self) -> Floats:
        """Weight of each cluster, (k,): they sum to one, and ``shares @ profiles`` is the SFIMP."""
        member = self.labels >= 0
        mass = np.bincount(self.labels[member], self.weight[member], self.k)
        return np.asarray(mass / mass.sum())

    @property
    def chance(self) -> float:
        """The share of rows that `described` has by assigning all rows to the largest cluster."""
        return float(self.shares.max())

    def rows(self, cluster: int) -> NDArray[Any]:
        """The rows of `cluster`, by its number, for `given` and `subset`: labels, or positions where there are none."""
        if not is_one_of(cluster, range(self.k)):
            raise ValueError(f"cluster is a whole number from 0 to {self.k - 1}; got {cluster!r}")
        return row_names(self.row_labels, np.flatnonzero(self.labels == cluster))

    @property
    def _message(self) -> Sentence:
        from losslens.results.sentences import clusters_in_words

        return clusters_in_words(self)

    def _table(self) -> ResultTable:
        columns: dict[str, Any] = {
            "cluster": np.arange(self.k),
            "n": self.sizes,
            "share": self.shares,
            "stability": self.cluster_stability,
            "rule": list(self.rules),
        }
        columns |= {f"sfimp_{name}": self.profiles[:, j] for j, name in enumerate(self.features)}
        no_rule = "all rows" if self.k == 1 else "no rule"
        return ResultTable(
            f"Clusters: {self.headline}", columns, ("{cluster}", "n = {n}: {rule}; {leading}"),
            (("cluster", "{cluster}"), ("rows", "{n}"), ("rule", "{rule}"), ("stability", "{stability}")),
            extra={"leading": [self._leading(profile) for profile in self.profiles]},
            formats={"stability": ".2f", "rule": lambda rule: rule or no_rule},
        )  # fmt: skip

    def _leading(self, profile: Floats) -> str:
        """The features with the largest mean importances in a cluster."""
        largest = np.argsort(-np.abs(profile), kind="stable")[:LEADING]
        return ", ".join(f"{self.features[j]} {in_digits(float(profile[j]))}" for j in largest)

    def _rows_drawn(self, lines: int) -> int:
        return 3 * (1 + lines)

    @draws("map")
    def plot(
        self, ax: Axes | None = None, *, top: int | None = None, sort: Sort = "importance",
        colors: Colors | None = None, labels: FeatureLabels | None = None, title: str | None = None,
    ) -> Axes:  # fmt: skip
        """Draw each feature's mean Shapley importance in each cluster as a heat map, with sizes and rules of clusters.

        Parameters
        ----------
        labels
            Names to show instead of those of features and columns: a mapping to a name, or to a name and a unit.

        Examples
        --------
        >>> import numpy as np, losslens as ll
        >>> X = np.random.default_rng(0).normal(size=(50, 2))
        >>> shares = ll.shapley_importance(lambda X: X[:, 1], X, 2 * X[:, 1], loss="squared_error")
        >>> [label.get_text() for label in shares.clusters(X, k=1).plot().get_yticklabels()]
        ['0: 50 rows (100%)']
        """
        return plots.rows.plot_clusters(self, ax, Look(top, sort, colors=colors, labels=labels))

    @property
    def headline(self) -> str:
        """The number of clusters, their stability, and the share of rows described."""
        if self.k == 1:
            return "one; no stable and separated clusters" if self.tried else "one"
        described = "no rules describe them"
        if any(self.rules):
            described, chance = shares_in_words(self.described, self.chance)
            described = f"{described} of rows described ({chance} by chance)"
        return f"{self.k}; stability {self.stability:.2f}, {described}"
