"""`time_blocks`: rows that are close in time, as groups."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.results.selection import row_order
from losslens.results.time_blocks import TimeBlocks
from losslens.tables.row_labels import check_order
from losslens.tables.times import Length, Times, read_length, read_times
from losslens.tracebacks import brief
from losslens.typing import Floats
from losslens.uncertainty.block_length import IN_A_ROW, NEIGHBOURS, block_length, length_unseen

FEWEST = 3  # blocks that a standard error needs


@brief
def time_blocks(times: Any, length: Any = None, like: Any = None) -> TimeBlocks:
    """Blocks of time, for ``groups=`` of the verbs: rows close in time are no independent observations.

    Donors then come from other blocks, and standard errors leave out one block at a time. Rows may be in any order, and
    several may have the same time; periods without rows make no block.

    Parameters
    ----------
    times
        A number, a date or a duration for each row: a list, an array, a series or index of pandas, polars or pyarrow.
        Dates with a time zone are taken as the clock there shows them.
    length
        How long a block is, in the unit of `times`: a number, or for dates a duration such as ``"7D"``, ``"12h"``,
        ``"2W"``, ``"1M"`` (calendar months) or a timedelta. Days begin at midnight, weeks on Monday. Choose it longer
        than values remain correlated. Without it, and without `like`, the length is what the rule of `like` gives where
        values correlate by 0.5 from one time to the next; the result says so.
    like
        In place of `length`: an importance of the same rows, computed without groups, whose local values have the
        autocorrelation that the length is chosen by. It is 1.5 times Politis and White's length for the circular
        bootstrap, the longest over the features, over the distinct times in their order (the mean of rows with the same
        time), and at most a sixth of them; the result says what was chosen.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> hours = np.datetime64("2024-03-01T00") + np.arange(2400)
    >>> ll.time_blocks(hours, "2D")
    TimeBlocks: 2,400 rows in 50 blocks of 2 days, 48 rows each
      from 2024-03-01 to 2024-06-08 23:00
    """
    row_times, chosen = read_times(times), ""
    if length is not None and like is not None:
        raise ValueError("pass either length or like=, from whose importances it is chosen, not both")
    if length is None and like is None:
        span, chosen = _unseen(row_times)
    elif like is None:
        span = read_length(length, row_times, "length")
    else:
        span, chosen = _chosen(row_times, _local(like, times, len(row_times)))
    number = span.number(row_times)
    labels = np.unique(number, return_inverse=True)[1].reshape(-1)
    if labels.max() + 1 < FEWEST:
        blocks = "2 blocks" if labels.any() else "1 block"
        raise ValueError(
            f"a length of {span} divides these times into {blocks}; standard errors need at least {FEWEST}, and 30 or "
            "more to be trusted: pass a shorter length"
        )
    order = np.lexsort((row_times.moments, labels))
    first = np.searchsorted(labels[order], np.arange(labels.max() + 1))
    last = np.append(first[1:], len(order)) - 1
    return TimeBlocks(
        labels, row_times.moments[order[first]], row_times.moments[order[last]], span, chosen, row_times.row_order
    )


def _unseen(times: Times) -> tuple[Length, str]:
    """A length where no values are known whose autocorrelation it could be chosen by, and what it rests on in words."""
    moments = np.unique(times.moments)
    if len(moments) < 2:
        raise ValueError("all times are the same: they make no blocks")
    steps = int(np.ceil(length_unseen(len(moments)) - 1e-9))
    return _span(moments, steps), (
        f"chosen: {steps} times in a row, assuming a correlation of {NEIGHBOURS:g} from one time to the next; pass "
        "like=, an importance of these rows, to estimate it, or a length"
    )


def _span(moments: NDArray[Any], steps: int) -> Length:
    """As long as so many consecutive times take, in the median: an outage, or a weekend, is no part of it."""
    return Length(
        float(np.median((moments[steps:] - moments[:-steps]).astype(float))), of_dates=moments.dtype.kind in "mM"
    )


def _local(like: Any, times: Any, n: int) -> dict[str, Floats]:
    """The local values of each feature of an importance of these rows."""
    one = getattr(like, "_first", like)
    if not hasattr(type(one), "local") or not hasattr(type(one), "given"):
        kind = type(like).__name__
        raise TypeError(
            f"like is an importance of these rows: feature_importance(...) or one feature of it; got {kind}"
        )
    if hasattr(one, "_need_rows"):
        one._need_rows("time_blocks")
    local = np.asarray(one.local if one is like else like.local)  # of a score there are none, which it says
    if len(local) != n:
        raise ValueError(
            f"like has local values of {len(local):,} rows, but times has {n:,}; pass the times of these rows"
        )
    check_order(times, row_order(one.row_labels, n, one.backend), "times")
    names = [one.name] if local.ndim == 1 else list(like.features)
    return dict(zip(names, local.reshape(n, -1).T, strict=True))


def _chosen(times: Times, local: dict[str, Floats]) -> tuple[Length, str]:
    """The longest length over the features, as a length of time, and how it was chosen in words."""
    moments, place = np.unique(times.moments, return_inverse=True)
    if len(moments) <= IN_A_ROW + 1:
        raise ValueError(
            f"times has {len(moments)} distinct times, too few to estimate the autocorrelation of like=; pass a length"
        )
    place = place.reshape(-1)
    lengths = {}
    for name, values in local.items():
        some = np.isfinite(values)
        count = np.bincount(place[some], minlength=len(moments))
        mean = np.bincount(place[some], values[some], len(moments))[count > 0] / count[count > 0]
        lengths[name] = block_length(mean)
    name = max(lengths, key=lambda one: lengths[one][0])
    steps = int(np.ceil(lengths[name][0] - 1e-9))
    span = _span(moments, steps)
    sentence = f"chosen: {steps} times in a row, from the autocorrelation of the local importances"
    sentence += f" of {name}, the longest of {len(lengths)} features" if len(lengths) > 1 else f" of {name}"
    if any(longer for _, longer in lengths.values()):
        sentence += "; some stay correlated for longer (a trend, or a season?): standard errors may be too small"
    return span, sentence
