"""Rows with donors of their own on a module's device: donors, values, predictions, losses and their sums.

Only sums come back to this processor, and the cells that a result keeps. Sums are always added in the same order,
unlike atomic additions: the same call gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import accumulate, pairwise
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from losslens.cells.matrix import NEARLY, CellSums, has_own_values
from losslens.donors.designs import DonorMatrix, Shifts
from losslens.donors.layout import OwnDonors
from losslens.donors.questions import Ask, Question
from losslens.engines.base import Averaged
from losslens.engines.gpu.arrays import Copied, SumsByKey, host
from losslens.engines.gpu.losses import PredictionLoss
from losslens.losses import Loss
from losslens.progress import Tick
from losslens.tables.sample import Sample
from losslens.typing import Floats, Indices

if TYPE_CHECKING:
    from losslens.engines.gpu.modules import DeviceTable


@dataclass(frozen=True, eq=False)
class DeviceRows:
    """What losses and sums need of some rows."""

    rows: Any  # (b,): positions in the sample
    weight: Any  # (n,)
    block: Any | None  # (n,)
    y: Any | None  # (b,); None where it is not numbers

    @classmethod
    def of(cls, on_device: DeviceTable, rows: Indices, sample: Sample) -> DeviceRows:
        """These rows, sent to the device."""
        y = None if sample.y is None or sample.y.dtype.kind not in "biuf" else on_device.numbers(sample.y[rows])
        block = None if sample.block is None else on_device.index(sample.block)
        return cls(on_device.index(rows), on_device.numbers(sample.weight), block, y)


@dataclass(frozen=True, eq=False)
class DeviceCells:
    """The cells of some rows and F features with m donors each, on the device: few features alone would be little work.

    The features are read alike: they have the same kind of layout.
    """

    layouts: tuple[OwnDonors, ...]
    donors: Any  # (b, F, m); -1 where a cell is left out
    predictions: Any  # (b, F, m) or (b, F, m, K)
    losses: Any = None  # (b, F, m), of the predictions; None without a loss
    own: Any = 0.0  # (b, 1, 1), of the unchanged rows

    @property
    def changes(self) -> Any:
        """Changes of the loss, (b, F, m)."""
        return None if self.losses is None else self.losses - self.own

    def sums(self, rows: DeviceRows, ceiling: float | None) -> list[DeviceSums]:
        """Sums over the cells of each feature, as `Averages` adds them."""
        donor_weight, features = row_weights(self.layouts[0], rows, self.donors), len(self.layouts)
        weight, changes = rows.weight[rows.rows][:, None, None] * donor_weight, self.changes
        by_value = self._by_value(rows)
        outputs = [self.predictions] if self.predictions.ndim == 3 else self.predictions.unbind(3)
        pd = [by_value(weight * one) for one in outputs]
        parts = {
            "row_mass": donor_weight.sum(2).unbind(1),
            "value_mass": by_value(weight),
            "pd": pd[0] if self.predictions.ndim == 3 else [torch.stack(one, dim=1) for one in zip(*pd, strict=True)],
        }
        if changes is not None:
            weighted = weight * changes
            parts |= {
                "row": (donor_weight * changes).sum(2).unbind(1),
                "curve": by_value(weighted),
                "square": (weighted * changes).sum((0, 2)).unbind(0),
            }
            if ceiling is not None:
                parts["clipped"] = ((self.losses >= NEARLY * ceiling) * weight).sum((0, 2)).unbind(0)
            if not has_own_values(self.layouts[0]):
                n = len(rows.weight)
                by_donor = SumsByKey(
                    torch.where(self.donors < 0, n - 1, self.donors) + n * self._feature_numbers(), features * n
                )
                parts |= {
                    name: by_donor(numbers).reshape(features, n).unbind(0)
                    for name, numbers in (("donor", weighted), ("donor_mass", weight))
                }
        of_each = [{name: part[k] for name, part in parts.items()} for k in range(features)]
        copied = Copied(torch.cat([part.reshape(-1) for one in of_each for part in one.values()]))
        sizes = [sum(part.numel() for part in one.values()) for one in of_each]
        return [
            DeviceSums(layout, {name: part.shape for name, part in one.items()}, copied, end - size)
            for layout, one, size, end in zip(self.layouts, of_each, sizes, accumulate(sizes), strict=True)
        ]

    def _feature_numbers(self) -> Any:
        return torch.arange(len(self.layouts), device=self.donors.device)[:, None]

    def _by_value(self, rows: DeviceRows) -> Callable[[Any], Sequence[Any]]:
        """Sums of numbers of the cells, (b, F, m), at each grid value of each feature; in rank bins of each column."""
        if self.layouts[0].binned:
            return lambda numbers: numbers.sum(0).unbind(0)
        sizes = [layout.size for layout in self.layouts]
        places = []
        for k, (layout, start) in enumerate(zip(self.layouts, accumulate(sizes, initial=0), strict=False)):
            place = torch.from_numpy(layout.place.astype(np.int64)).to(self.donors.device)
            places.append(start + (place[rows.rows] if place.ndim == 2 else place[self.donors[:, k]]))
        by_place = SumsByKey(torch.stack(places, dim=1), sum(sizes))
        return lambda numbers: by_place(numbers).split(sizes)


@dataclass(frozen=True, eq=False)
class DeviceSums:
    """Sums over the cells of a feature that are being computed, and copied to this processor with those of others."""

    layout: OwnDonors
    shapes: dict[str, Any]  # of each, in the order of the copy
    copied: Copied
    start: int  # in the copy

    def wait(self) -> CellSums:
        """The sums, when they are complete."""
        flat, start, parts = np.asarray(self.copied.wait()), self.start, {}
        for name, shape in self.shapes.items():
            parts[name] = flat[start : start + shape.numel()].reshape(shape)
            start += shape.numel()
        sums = CellSums(
            row_mass=parts["row_mass"],
            value_mass=self._at_values(parts["value_mass"]),
            pd=self._at_values(parts["pd"]),
        )
        if "row" not in parts:
            return sums
        return replace(
            sums,
            row=parts["row"],
            curve=self._at_values(parts["curve"]),
            donor=(parts["donor"], parts["donor_mass"]) if "donor" in parts else None,
            square=float(parts["square"]),
            clipped=float(parts.get("clipped", 0.0)),
        )

    def _at_values(self, sums: Floats) -> Floats:
        """Sums at each grid value, in an array of its own; the columns of rank bins are at one value each."""
        if not self.layout.binned:
            return sums.copy()
        at_values = np.zeros((self.layout.size, *sums.shape[1:]))
        np.add.at(at_values, self.layout.place, sums)
        return at_values


def row_weights(layout: OwnDonors, rows: DeviceRows, donors: Any) -> Any:
    """The weights of donors (b, ..., m), as `OwnDonors.weights` has them."""
    counted = donors >= 0
    if rows.block is not None and not layout.alone:
        own = rows.block[rows.rows]
        counted &= rows.block[donors] != own.reshape(-1, *[1] * (donors.ndim - 1))
    weight = torch.where(counted, torch.ones_like(rows.weight[:1]) if layout.alone else rows.weight[donors], 0.0)
    if not layout.even:
        return weight
    total = weight.sum(-1, keepdim=True)
    return torch.where(total > 0, weight / total, 0.0)


def donors_of(on_device: DeviceTable, donors: DonorMatrix, rows: Indices) -> Any:
    """The donors of these rows, (b, m); shifts are computed on the device."""
    if not isinstance(donors, Shifts):
        return on_device.index(np.asarray(donors[rows]))
    n, donor = len(donors.donor), on_device.index(donors.donor)
    places = on_device.index(donors.places[rows])[:, None] + on_device.index(donors.shifts)
    places = torch.where(places >= n, places - n, places)
    return donor[places.sort(1)[0] if donors.ascending else places]


@dataclass(frozen=True, eq=False)
class _DrawnCells:
    """One feature's cells of some rows, donor by donor, and the values that they take."""

    ask: Ask
    value: Any  # (m * b,): the value's position for each cell
    numbers: tuple[Any, ...]  # of each column of the feature, its numbers at every value
    same: Any  # (b, m): whether a cell holds the row's own value


@dataclass(frozen=True, eq=False)
class _Predicted:
    """Predictions on the device."""

    predictions: tuple[Any, list[Any]]  # of the unchanged rows, (b, ...), and of each feature's cells, (b, m, ...)
    usual: Any  # whether all are finite and not too large: a tensor that may not be computed yet


class OwnDonorCells:
    """Predicts the cells of some rows for several features, without leaving the device.

    What is sent there is sent first: sending waits for the work that was launched before.
    """

    def __init__(
        self, on_device: DeviceTable, rows: Indices, questions: Sequence[Question], sample: Sample, loss: Loss | None
    ) -> None:
        self.on_device, self.b, self.sample, self.loss = on_device, len(rows), sample, loss
        self.sent = DeviceRows.of(on_device, rows, sample)
        self.rows = on_device.rows.index_select(0, self.sent.rows)
        self.donors, self.features = [], []
        for question in questions:
            assert question.ask.donor_values is not None
            assert isinstance(question.layout, OwnDonors)
            ask, drawn, layout = question.ask, question.ask.donor_values, question.layout
            donors = donors_of(on_device, layout.donors, rows)
            sources = donors if drawn.donors is layout.donors else donors_of(on_device, drawn.donors, rows)
            value = on_device.index(drawn.codes)[sources]
            same = value == on_device.index(ask.own[rows])[:, None]
            numbers = tuple(
                on_device.values(source)[on_device.index(index)]
                for source, index in zip(ask.sources, ask.index, strict=True)
            )
            self.donors.append(donors)
            self.features.append(_DrawnCells(ask, value.T.reshape(-1), numbers, same))
        self.ends = np.cumsum([self.b, *(len(one.value) for one in self.features)])

    def predict(self, batch_rows: int, tick: Tick) -> _Predicted | None:
        """All predictions, launched batch by batch; None where the model returns something unusual.

        Also where a prediction is not `usual`, the caller asks the black box, which says what is wrong.
        """
        total, predictions, usual = int(self.ends[-1]), None, None
        sizes = self.on_device.sizes
        sizes.size = min(sizes.size, ceil(total / ceil(total / batch_rows)))
        for part, output in sizes.over(total, lambda part: self.on_device.predict.output(self._part(part))):
            numbers = self.on_device.as_predictions(output, part.stop - part.start)
            if numbers is None or (predictions is not None and numbers.shape[1:] != predictions.shape[1:]):
                return None
            if predictions is None:
                predictions = torch.empty((total, *numbers.shape[1:]), dtype=numbers.dtype, device=numbers.device)
            predictions[part] = numbers
            fine = self.on_device.usual(numbers)
            usual = fine if usual is None else usual & fine
            tick(part.stop - part.start)
        assert predictions is not None
        base, cells = predictions[: self.b], []
        for one, (start, stop) in zip(self.features, pairwise(self.ends), strict=True):
            of_feature = predictions[start:stop].reshape(-1, self.b, *base.shape[1:]).transpose(0, 1)
            same = one.same.reshape(*one.same.shape, *[1] * (of_feature.ndim - 2))
            cells.append(torch.where(same, base[:, None], of_feature))
        return _Predicted((base, cells), usual)

    def averaged(
        self, questions: Sequence[Question], base: Any, cells: list[Any], *, kept: bool
    ) -> list[Callable[[], Averaged]]:
        """The cells that `predict` returned, summed feature by feature, where the device computes the loss.

        All sums are launched; each is waited for when it is called for.
        """
        loss, classes = self.loss, 0 if self.sample.classes is None else len(self.sample.classes)
        judge = None if loss is None else PredictionLoss.of(loss, base, classes)
        if loss is not None and judge is None:
            return [partial(_predicted, predictions) for predictions in cells]
        ceiling = None if loss is None else loss.ceiling(np.float32 if base.dtype == torch.float32 else np.float64)
        own = 0.0 if judge is None else judge(self.sent.y, base[:, None])[:, :, None]
        averaged: dict[int, Callable[[], Averaged]] = {}
        for alike in _alike(questions):
            layouts: Any = tuple(questions[k].layout for k in alike)
            donors, predictions = (torch.stack([part[k] for k in alike], dim=1) for part in (self.donors, cells))
            losses = None
            if judge is not None:
                losses = judge(self.sent.y, predictions.flatten(1, 2)).reshape(donors.shape)
            done = DeviceCells(layouts, donors, predictions, losses, own)
            for f, (k, sums) in enumerate(zip(alike, done.sums(self.sent, ceiling), strict=True)):
                averaged[k] = partial(_averaged, done, f, sums, loss, kept=kept)
        return [averaged[k] for k in range(len(questions))]

    def _part(self, part: slice) -> Any:
        """Rows with values replaced: the unchanged rows, then each feature's cells."""
        positions = torch.arange(part.start, part.stop, device=self.rows.device) % self.b
        rows = self.rows.index_select(0, positions)
        for one, (start, stop) in zip(self.features, pairwise(self.ends), strict=True):
            low, high = max(start, part.start), min(stop, part.stop)
            if low < high:
                value = one.value[low - start : high - start]
                for column, numbers in zip(one.ask.columns, one.numbers, strict=True):
                    rows[low - part.start : high - part.start, column] = numbers[value]
        return rows


def _predicted(predictions: Any) -> Averaged:
    """Cells that are judged and summed by this processor."""
    return Averaged(host(predictions))


def _averaged(cells: DeviceCells, f: int, sums: DeviceSums, loss: Loss | None, *, kept: bool) -> Averaged:
    """The f-th feature of some."""
    array = host(cells.predictions[:, f]) if kept or (loss is not None and loss.domains) else None
    if loss is not None and loss.domains is not None and array is not None:
        loss.check_prediction(array.ravel())  # a deviance is not defined for every prediction
    return Averaged(array, sums.wait())


def _alike(questions: Sequence[Question]) -> list[list[int]]:
    """Positions of questions whose cells can be read together."""
    positions: dict[tuple[Any, ...], list[int]] = {}
    for k, question in enumerate(questions):
        layout = question.layout
        assert isinstance(layout, OwnDonors)
        kind = (layout.width, layout.binned, layout.alone, layout.even, has_own_values(layout))
        positions.setdefault(kind, []).append(k)
    return list(positions.values())
