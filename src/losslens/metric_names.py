"""scikit-learn's names for means and scores, and which loss of a single row to write instead."""

from __future__ import annotations

from collections.abc import Container

# scikit-learn's names for scorers and metrics, less their prefixes and suffixes.
_SYNONYMS = {
    "mse": "squared_error", "rmse": "squared_error", "mae": "absolute_error", "accuracy": "zero_one",
    "log": "log_loss", "logloss": "log_loss", "cross_entropy": "log_loss", "quantile": "pinball",
    "auc": "roc_auc", "max_error": "neg_max_error", "median_absolute_error": "neg_median_absolute_error",
}  # fmt: skip
_AVERAGES = (
    "roc_auc", "average_precision", "balanced_accuracy", "explained_variance", "f1", "jaccard",
    "matthews_corrcoef", "neg_max_error", "neg_median_absolute_error", "precision", "r2", "recall",
)  # fmt: skip


def advice(name: str, losses: Container[str]) -> str | None:
    """What to write instead of scikit-learn's name of a mean."""
    bare = name.removeprefix("neg_").removeprefix("root_").removeprefix("mean_")
    bare = bare.removesuffix("_loss").removesuffix("_score")
    meant = _SYNONYMS.get(bare, bare)
    if meant.startswith(_AVERAGES):
        return (
            f"{name!r} is an average over rows, no single row has one; pass "
            f"loss=sklearn.metrics.get_scorer({meant!r}) for global importance and the PI curve"
        )
    if meant in losses:
        return f"{name!r} names a mean or a score, not the loss of one row; pass loss={meant!r}"
    return None
