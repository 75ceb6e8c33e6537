"""The report: one HTML file."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from losslens.cli.boundary import note, to_the_end
from losslens.cli.options import RUNNING, Asked
from losslens.cli.reading import features_of, first_and_more, loss_of, one_model, pairs, rows_of, run_options
from losslens.cli.running import takes
from losslens.cli.writing import check_place, telling
from losslens.results import size_in_words
from losslens.tables import as_table

SHOWN = 5000  # rows of a page, if not told otherwise


@takes(
    "model", "data", "target", "weight", "drop", "rows", "seed", "models", "trust", "trust_type", "loss", "features",
    "group", "by", "no_shapley", "interactions", "title", "output", *RUNNING,
)  # fmt: skip
def report(asked: Asked) -> None:
    """Everything in one HTML file.

    It works offline, and regroups rows without the model.
    """
    from losslens.reporting import report as make

    check_place(asked.output)
    paths = first_and_more(asked.model, pairs(asked.models, "--models"), "--models")
    models = {name: one_model(asked, path) for name, path in paths.items()}
    rows = rows_of(replace(asked, rows=None), list(models.values()), asked.data)  # the page says itself what it sampled
    own, *others = models
    by: Any = asked.by
    if by is not None and by not in as_table(rows.X).names:
        by = rows.column(by)  # not an input of the model
    together = True if asked.interactions is None else asked.interactions or False
    with to_the_end():  # before anything is written
        found = make(
            models[own], rows.X, rows.y, models={name: models[name] for name in others} or None,
            loss=loss_of(asked.loss), features=features_of(asked), by=by, title=asked.title, rows=asked.rows or SHOWN,
            shapley=not asked.no_shapley, interactions=together, sample_weight=rows.weight, **run_options(asked),
        )  # fmt: skip
    with telling(asked.output):
        found.save(asked.output)
        size = Path(asked.output).stat().st_size
    if not asked.quiet:
        note(f"wrote {asked.output} ({size_in_words(size)})")
