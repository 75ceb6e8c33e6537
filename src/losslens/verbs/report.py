"""`report`: explain a model, compute Shapley shares and further results, and put them on one page."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from losslens.donors.designs import Latin
from losslens.donors.samplers import Within
from losslens.losses import Loss, is_scorer
from losslens.models import as_model
from losslens.page.blocks import GoingTogether
from losslens.page.embedding import EMBEDS, Embed, embedded
from losslens.page.findings import Findings
from losslens.page.opening import UNNAMED
from losslens.page.receipts import python_calls
from losslens.page.report import Report
from losslens.page.summary import ShownModel, summarise
from losslens.passes.allowance import Limits, limits_of
from losslens.passes.counts import count_importances
from losslens.passes.pair_map import PairMap, pair_map
from losslens.passes.task import Options, default_loss, picked, prepare
from losslens.passes.ways import FIXED_DONORS
from losslens.progress import bar
from losslens.results.importance import FeatureImportance
from losslens.results.importances import Importances
from losslens.results.interactions import Interactions
from losslens.results.regions import Region, Regions
from losslens.results.scores import Scores
from losslens.results.segments import WeakSegments
from losslens.results.shapley import ShapleyImportance
from losslens.results.table import or_else
from losslens.rows.regions import RegionSearch
from losslens.shapley.stopping import ShapleySettings
from losslens.tables import checks
from losslens.tables.columns import Distinct, array_column, is_missing
from losslens.tables.features import unknown_feature
from losslens.tables.frames import Table, as_table
from losslens.tables.leakage import warn_of_target
from losslens.tables.row_labels import row_names
from losslens.verbs.blocks import LEADING, given_others, together
from losslens.verbs.features import importances
from losslens.verbs.interactions import chosen_pairs, pair_interactions
from losslens.verbs.running import verb
from losslens.verbs.segments import segments_of
from losslens.verbs.shapley import share_out

FIRST = "this model"  # name of the reported model beside others
PAIRED_FEATURES = 6  # most important features whose pairs are computed by default
PAIR_PREDICTIONS = 50_000  # always allowed for pairs; more only if the importances took more
PAIR_DONORS = 5  # fewest donors of a row where pairs are sampled
SEGMENT_FEATURES = 40  # most important features whose columns rules of weak segments read
SEGMENT_ROWS = 2_500  # most rows of each half that weak segments are searched on, for speed
REGION_ROWS = 2_000  # most rows that regions are searched on, for speed
REGION_CELLS = 100_000_000  # most cells of all features that regions are searched in, most important features first


@verb
def report(
    model: Any,
    X: Any,
    y: Any,
    *,
    models: Mapping[str, Any] | None = None,
    loss: str | Loss | Callable[..., Any] | None = None,
    features: Any = None,
    by: Any = None,
    shapley: bool = True,
    interactions: bool | int = True,
    budget: str | int | None = None,
    title: str | None = None,
    target_name: str | None = None,
    descriptions: Mapping[str, str] | None = None,
    rows: int = 5000,
    embed: Embed = "all",
    sample_weight: Any = None,
    random_state: Any = None,
    n_jobs: int | None = None,
    memory: str | int = "1 GiB",
    progress: bool | None = None,
    executor: Any = None,
) -> Report:
    """One page about a model: its performance, the features it depends on, and how that differs between rows.

    Parameters
    ----------
    model, X, y, loss, features, sample_weight
        As in `feature_importance`, without pairs. By a score (``"roc_auc"``) the page shows how well the model does and
        what it depends on; curves, subgroups and rows, which have no score, are shown by the default loss.
    models
        Further models by name, shown beside the first on the same rows.
    by
        A column, its name, or a label for each row: groups that the page shows side by side, compares, and offers to
        select. Many numbers become ranges; of more than 12 values the rarest are joined.
    shapley
        Also compute Shapley shares and the gain of each row; False saves that cost.
    interactions
        Interactions of pairs among so many of the most important features: 6 for True, none for False. They take no
        more predictions than the importances do (or 50,000); where all pairs of rows would take more, donors are
        sampled.
    budget
        For models that take long: a time, such as ``"10 min"``, or a number of predictions, split between the
        importances and the Shapley shares of all models, as in `feature_importance`. Then fewer rows may be explained,
        which the page mentions, and nothing of pairs and of features that go together.
    title
        Title of the page; by default what is predicted, and the name of the model or of a pipeline's last step.
    target_name
        What is predicted, in the words of the page's readers, such as "bikes per hour"; by default the name of the
        series y.
    descriptions
        What columns or groups of columns are, in a few words, such as ``{"hr": "hour of the day"}``: shown beside their
        names. By default those that pandas holds in ``X.attrs["descriptions"]``.
    rows
        The most rows to explain; if there are more, a random sample, which the page mentions.
    embed
        The rows that the file holds: ``"all"`` that are explained, with their targets and predictions; a random
        ``"sample"`` of 500 of them; or ``"none"``: no row, target or prediction, only means over rows, and no table or
        subgroups to form. Numbers of all rows are the same. Choose before you mail the file.

    Examples
    --------
    >>> import numpy as np, losslens as ll
    >>> X = np.random.default_rng(0).normal(size=(100, 2))
    >>> page = ll.report(lambda X: X[:, 0], X, 2 * X[:, 0], loss="squared_error", title="A line", random_state=0)
    >>> page
    <Report 'A line': 2 features, 100 rows; .save(path)>
    """
    options = picked(Options, locals())
    if title is not None and not isinstance(title, str):
        raise TypeError(f"title is the text of the headline; got {type(title).__name__}")
    if not isinstance(embed, str) or embed not in EMBEDS:
        raise ValueError(f"embed is 'all', 'sample' or 'none': the rows that the file holds; got {embed!r}")
    target = target_in_words(target_name, y, as_table(X).names)
    described = checked_descriptions(X, descriptions, as_table(X).names, features)
    limits = limits_of(budget)
    if limits is not None:
        every = {FIRST: model, **_named(models)}
        rows = _affordable_rows(every, X, y, loss, rows, options, limits, shapley=shapley)
        limits, interactions = replace(limits, every_row=True), False
    named, data, most = checked_report(model, X, y, models, loss, by, shapley, interactions, rows, options)
    warn_of_target(X, y)
    scores: dict[str, Scores] = {}
    if data.scorer is not None:
        by_score = replace(data, loss=data.scorer)
        scores = {name: _call_named(name, importances, each, by_score) for name, each in named.items()}
    parts = _parts(data, limits, len(named) * (1 + shapley))
    results = {name: _importances(name, each, next(parts)) for name, each in named.items()}
    shares: dict[str, ShapleyImportance] = {}
    if shapley:
        share = partial(share_out, settings=ShapleySettings())
        shares = {name: _call_named(name, share, each, next(parts)) for name, each in named.items()}
    from importlib.metadata import version  # a fifth of the time of `import losslens`

    shown = ShownModel(
        title or f"Predicting {target}{named_by(model)}", f"losslens {version('losslens')}", data.columns, data.index,
        data.n_given, data.y, data.by, target, as_table(X), described,
    )  # fmt: skip

    first = next(iter(results.values()))
    findings = _findings(model, data, first, next(iter(shares.values()), None), most, alone=limits is not None)

    def complete(one: FeatureImportance) -> FeatureImportance:
        return one if one.complete else _with_all_cells(one, model, data)

    with bar(len(first), "writing the report", progress, "features") as tick:
        summary = summarise(shown, results, shares, findings, complete, tick, scores)
    summary["calls"] = _calls(model, models, loss, features, sample_weight, data, findings, shown.X.backend)
    return Report(embedded(summary, embed, np.random.default_rng([data.options.random_state, 9])))


def _calls(
    model: Any, models: Any, loss: Any, features: Any, sample_weight: Any, data: ExplainedRows, findings: Findings,
    backend: str,
) -> dict[str, str]:  # fmt: skip
    """The calls that a reader of the page can make."""
    seed, n, rows = data.options.random_state, len(data.y), ""
    if n < data.n_given:
        rows = f"kept = np.sort(np.random.default_rng([{seed}, 8]).choice(len(X), {n}, replace=False))\n"
        rows += f"X, y = X{'.iloc' if backend == 'pandas' else ''}[kept], np.asarray(y)[kept]"
        rows += "" if sample_weight is None else "\nsample_weight = np.asarray(sample_weight)[kept]"
    together = findings.blocks.together
    blocks = None if together is None else {one.name: list(one.features) for one in together.blocks.values()}
    named = isinstance(loss, str) or loss is None or data.scorer is not None
    return python_calls(
        {"models": models, "features": features, "sample_weight": sample_weight},
        loss=repr(data.loss.name) if named else "loss", seed=seed, rows=rows, blocks=blocks,
        scorer="" if data.scorer is None else repr(loss) if isinstance(loss, str) else "loss",
        weak=not findings.weak_how, pairs=findings.pairs_call, right=hasattr(model, "predict"),
    )  # fmt: skip


def _parts(data: ExplainedRows, limits: Limits | None, count: int) -> Iterator[ExplainedRows]:
    """The rows of so many calls, each with its part of the limits."""
    for k in range(count):
        yield data if limits is None else replace(data, options=replace(data.options, limits=limits.share(k, count)))


def _affordable_rows(
    named: Mapping[str, Any], X: Any, y: Any, loss: Any, rows: int, options: Options, limits: Limits, *, shapley: bool
) -> int:
    """How many rows are explained within the limits, `rows` at most."""
    from losslens.passes.affordable_rows import rows_for_all  # most reports have no limits

    checks.check_count(rows, "rows", least=3)
    if is_scorer(loss):
        raise ValueError(f"budget is for losses, and {loss!r} is a score: leave out budget=, or name a loss")
    chosen = default_loss(as_model(next(iter(named.values()))), loss, y)
    tasks = [prepare(as_model(one), X, y, options, loss=chosen, response=chosen.reads) for one in named.values()]
    return min(rows, len(rows_for_all(tasks, limits, shapley=shapley)))


def checked_descriptions(X: Any, given: Any, columns: Collection[str], features: Any) -> dict[str, str]:
    """What columns are in a few words: as given, or as pandas holds it; a name that is unknown is an error."""
    words = getattr(X, "attrs", {}).get("descriptions") if given is None else given
    if not isinstance(words, Mapping) or not all(isinstance(text, str) for text in words.values()):
        if given is not None:
            raise TypeError(f"descriptions are a mapping, {{'hr': 'hour of the day'}}; got {given!r}")
        return {}
    names = [*columns, *(map(str, features) if isinstance(features, Mapping) else ())]
    for name in words if given is not None else ():
        if str(name) not in names:
            raise ValueError(unknown_feature(str(name), names).replace("unknown feature", "descriptions: no column", 1))
    return {str(name): text for name, text in words.items() if str(name) in names}


def named_by(model: Any) -> str:
    """The model in a title, by its class; of a pipeline or a search the estimator that predicts in the end.

    >>> from sklearn.linear_model import Ridge
    >>> from sklearn.pipeline import make_pipeline
    >>> named_by(make_pipeline(Ridge())), named_by(lambda X: X[:, 0])
    (' with Ridge', '')
    """
    name = name_of(model)
    return "" if name == "<lambda>" else f" with {name}"


def name_of(model: Any) -> str:
    """The class of a model; of a pipeline or a search that of the estimator that predicts in the end."""
    inner = model
    while (last := getattr(inner, "best_estimator_", None)) is not None or hasattr(inner, "steps"):
        inner = inner.steps[-1][1] if last is None else last
    return as_model(model if isinstance(inner, str) else inner).name  # "passthrough" is no model


def target_in_words(target_name: str | None, y: Any, columns: Collection[str] = ()) -> str:
    """What is predicted: `target_name`, or the name of the series y unless that is a column's or only "target" or "y".

    >>> target_in_words("bikes per hour", [1.0]), target_in_words(None, [1.0])
    ('bikes per hour', 'the target')
    """
    if target_name is None:
        name = getattr(y, "name", None)
        says_more = isinstance(name, str) and name.strip() and name not in ("target", "y", *columns)
        return str(name) if says_more else UNNAMED
    if not isinstance(target_name, str) or not target_name.strip():
        raise ValueError(f"target_name is text, such as 'bikes per hour'; got {target_name!r}")
    return target_name


def checked_report(
    model: Any, X: Any, y: Any, models: Any, loss: Any, by: Any, shapley: bool, interactions: bool | int, rows: int,
    options: Options,
) -> tuple[dict[str, Any], ExplainedRows, int]:  # fmt: skip
    """The models by name, the rows that are explained, and the number of features whose pairs are computed."""
    checks.check_count(rows, "rows", least=3)
    checks.check_flag(shapley, "shapley")
    most, wrapped, others = _paired_features(interactions), as_model(model), _named(models)
    scorer = loss if is_scorer(loss) else None
    chosen = default_loss(wrapped, None if is_scorer(loss) else loss, y)
    if chosen.reads == "outputs":
        raise ValueError(
            f"a report shows one prediction a row, but {chosen.title} reads several; pass one output, or use "
            "feature_importance, whose result has .outputs"
        )
    data = _sampled(as_table(X), y, by, int(rows), chosen, options, scorer)
    return {FIRST if others else name_of(model): model, **others}, data, most


@dataclass(frozen=True, eq=False)
class ExplainedRows:
    """The rows that are explained, and how."""

    X: Any
    y: NDArray[Any]
    loss: Loss
    options: Options
    index: NDArray[Any]  # labels of the rows, or their positions in the user's table
    n_given: int
    columns: dict[str, Distinct]
    by: str | None
    scorer: Any = None  # by which the page ranks features, if not by the loss


def _sampled(table: Table, y: Any, by: Any, most: int, loss: Loss, options: Options, scorer: Any) -> ExplainedRows:
    """At most so many rows, in the order of the table."""
    if y is None:
        raise ValueError("y, the true values, is missing: a report is about a model's performance")
    target = checks.vector(y, table.n, "y", table.index)
    weight = options.sample_weight
    weight = None if weight is None else checks.vector(weight, table.n, "sample_weight", table.index)
    index = np.arange(table.n)
    if table.n > most:
        index = np.sort(np.random.default_rng([options.random_state, 8]).choice(table.n, most, replace=False))
    labels, name = _groups(table, by)
    rows = table.rows(index) if len(index) < table.n else table.native
    some = as_table(rows)
    columns = {label: some.column(j).distinct for j, label in enumerate(some.names)}
    if labels is not None and name is not None:
        columns[name] = array_column(labels[index]).distinct
    options = replace(options, sample_weight=None if weight is None else weight[index])
    names = row_names(table.row_labels, index)
    return ExplainedRows(rows, target[index], loss, options, names, table.n, columns, name, scorer)


def _groups(table: Table, by: Any) -> tuple[NDArray[Any] | None, str | None]:
    """Labels of rows that are not a column of the table, and the name of the grouping column."""
    if by is None or (isinstance(by, str) and by in table.names):
        return None, by
    if isinstance(by, str):
        raise ValueError(unknown_feature(by, table.names, "columns"))
    name, labels = str(getattr(by, "name", None) or "group"), checks.vector(by, table.n, "by", table.index)
    if name in table.names and _same_values(table.column(table.names.index(name)).array, labels):
        return None, name
    if name in table.names:
        raise ValueError(f"by is called {name!r} like a column of X, but has other values; rename it")
    return labels, name


def _same_values(own: NDArray[Any], others: NDArray[Any]) -> bool:
    first, second = ([None if is_missing(value) else value for value in values.tolist()] for values in (own, others))
    return first == second


def _named(models: Mapping[str, Any] | None) -> dict[str, Any]:
    """Further models by name; `FIRST` is reserved."""
    if models is None:
        return {}
    if not isinstance(models, Mapping):
        raise TypeError(f"models must be a mapping, {{'name': model, ...}}; got {type(models).__name__}")
    by_name = {str(name): model for name, model in models.items()}
    if len(by_name) < len(models) or FIRST in by_name:
        raise ValueError(f"models need different names, other than {FIRST!r}; got {list(models)!r}")
    return by_name


def _importances(name: str, model: Any, data: ExplainedRows) -> Importances:
    result: Importances = _call_named(name, importances, model, data)
    for feature in result.values():
        if not feature.means.has_weights:
            raise ValueError(f"{feature.name!r} has curves only; a report needs columns or groups of columns")
    return result


def _paired_features(interactions: bool | int) -> int:
    """The number of features whose pairs are computed."""
    if isinstance(interactions, (bool, np.bool_)):
        return PAIRED_FEATURES if interactions else 0
    if not isinstance(interactions, (int, np.integer)) or interactions < 2:
        raise ValueError(f"interactions is True, False or a number of features from 2 on; got {interactions!r}")
    return int(interactions)


def _findings(
    model: Any, data: ExplainedRows, first: Importances, share: ShapleyImportance | None, most: int, *,
    alone: bool = False,
) -> Findings:  # fmt: skip
    """Further results of the first model; only pairs and blocks need more predictions, which `alone` leaves out."""
    table, seed = as_table(data.X), data.options.random_state
    with bar(len(first), "looking for extrapolation", data.options.progress, "features") as tick:
        for one in first.values():
            or_else(partial(getattr, one, "extrapolation"), None)  # cached by the result
            tick(1)
    pairs, pairs_note, pairs_call = (None, "", "") if most == 0 else _pairs(model, data, first, most)
    rows = None
    if share is not None:
        rows = or_else(lambda: share.rank_rows(first), None) or or_else(share.rank_rows, None)
    clusters = None if share is None else or_else(lambda: share.clusters(table, random_state=seed), None)

    return Findings(
        pairs,
        pairs_note,
        rows,
        clusters,
        *_region_finder(table, first),
        *_weak_segments(table, first, data),
        GoingTogether(None, None, "") if alone else _going_together(model, data, first),
        pairs_call,
        None if pairs is None else or_else(lambda: _map_of(model, data, pairs), None),
    )


def _going_together(model: Any, data: ExplainedRows, first: Importances) -> GoingTogether:
    """Blocks with a leading feature, and the importance given the others of leading features in unreal rows.

    They take no more predictions than the importances did, or `PAIR_PREDICTIONS`, with fewer donors if need be.
    """
    leading = [one.name for one in first._ranked[:LEADING]]
    unreal = [name for name in leading if first[name]._unreal_rows]
    blocks = {name: some for name, some in first.blocks.items() if {*some} & {*leading}}
    allowed, n = max(first.n_predictions, PAIR_PREDICTIONS), len(data.y)

    def donors(features: int) -> int:
        return min(FIXED_DONORS, allowed // max(features, 1) // n)

    while blocks and donors(sum(1 + len(some) for some in blocks.values())) < PAIR_DONORS:
        blocks.popitem()
    running = {"random_state": data.options.random_state, "n_jobs": data.options.n_jobs, "memory": data.options.memory,
               "progress": data.options.progress}  # fmt: skip
    ask, joint, given = (first, model, data.X, data.y), None, None
    if blocks:
        most = donors(sum(1 + len(some) for some in blocks.values()))
        joint = or_else(lambda: together(*ask, blocks, running, most), None)
    if unreal and (m := donors(len(unreal))) >= PAIR_DONORS:
        given = or_else(lambda: given_others(*ask, Within(m=m), unreal, running), None)
    left = len(first.blocks) - len(joint.blocks if joint is not None else ())
    how = f"Of {len(first.blocks)} blocks, {left} without a leading feature are left out." if left and joint else ""
    return GoingTogether(joint, given, how)


def _weak_segments(table: Table, first: Importances, data: ExplainedRows) -> tuple[WeakSegments, str]:
    """Where the first model is worst, and a sentence if not all rows or columns were searched."""
    columns = dict.fromkeys(name for one in first._ranked[:SEGMENT_FEATURES] for name in one.columns)
    options = replace(data.options, random_state=0)  # the same segments for every seed
    segments = segments_of(
        table, first._first.sample, data.loss, options=options, columns=tuple(columns), most_rows=SEGMENT_ROWS
    )
    limits, count = [], min(len(first), SEGMENT_FEATURES)
    if len(columns) < len(table.names):
        most = f"the {count} most important features" if count < len(first) else "the explained features"
        limits.append(f"{len(columns)} of {len(table.names)} columns, those of {most}")
    if table.n > 2 * SEGMENT_ROWS:
        limits.append(f"random samples of {SEGMENT_ROWS:,} rows of each half")
    return segments, f"The search for where the model is worst used {' and '.join(limits)} only." if limits else ""


def _region_finder(table: Table, first: Importances) -> tuple[Callable[[FeatureImportance], Regions | None], str]:
    """A function that finds the regions of a feature, and a sentence if not all rows or features are searched."""
    some = np.arange(table.n)
    if table.n > REGION_ROWS:  # the same for every seed: so are the regions
        some = np.sort(np.random.default_rng(13).choice(table.n, REGION_ROWS, replace=False))
    part = table if len(some) == table.n else as_table(table.rows(some))
    cells = np.cumsum([len(some) * one.layout.size for one in first._ranked])
    count = max(1, int(np.sum(cells <= REGION_CELLS)))
    searched = {one.name for one in first._ranked[:count]}

    def regions_of(one: FeatureImportance) -> Regions | None:
        if one.name not in searched:
            return None
        rows = one if part is table else one.at_positions(some)
        search = RegionSearch.over(part, rows, count)  # all features of the page share the level
        regions: list[Region] = or_else(lambda: search.of(rows, "interaction"), [])
        return Regions(tuple(regions), {one.name: rows}, "interaction") if regions else None

    limits = "" if count == len(first) else f" for the {count} most important feature{'s' if count > 1 else ''}"
    limits += "" if part is table else f", on a random sample of {len(some):,} rows"
    return regions_of, f"Regions were searched{limits}." if limits else ""


def _pairs(model: Any, data: ExplainedRows, first: Importances, most: int) -> tuple[Interactions | None, str, str]:
    """Interactions of the most important features, and how: exact where that is cheap, else with sampled donors.

    Last the arguments of the call in Python.
    """
    chosen = _disjoint_features(data, first, most)
    if len(chosen) < 2:
        return None, "", ""
    options = affordable_pairs(model, data, chosen, first.n_predictions)
    if options is None:
        allowed = max(first.n_predictions, PAIR_PREDICTIONS)
        return None, f"Pairs of features were not computed: they take more than {allowed:,} predictions.", ""
    count, donors = len(options.features), options.donors
    compute = partial(pair_interactions, model, data.X, data.y, loss=data.loss, **options.arguments)
    interactions: Interactions | None = or_else(compute, None)
    design = "exact over all pairs of rows" if donors == "auto" else f"sampled with {donors}"
    subject = f"The {count} most important features" if count < len(first) else f"The {count} features"
    if interactions is None:
        return None, "", ""
    drawn = "" if donors == "auto" else f", donors=ll.{donors!r}"
    how = f"{subject} in pairs: {design}, {interactions.n_predictions:,} predictions."
    return interactions, how, f"features={options.features!r}{drawn}"


def _map_of(model: Any, data: ExplainedRows, pairs: Interactions) -> PairMap | None:
    """The strongest pair of single columns, over both."""
    table, index = as_table(data.X), pairs.interaction.index
    label = dict(zip(table.names, table.labels, strict=True))
    for j, k in sorted(pairs.interaction._pairs, key=lambda pair: -abs(index[pair])):
        names = [pairs.features[j], pairs.features[k]]
        if all(name in label for name in names):
            options = replace(data.options, features=[label[name] for name in names], progress=False)
            task = prepare(model, data.X, data.y, options, loss=data.loss, response=data.loss.reads, exact=False)
            return pair_map(task)
    return None


def _disjoint_features(data: ExplainedRows, first: Importances, most: int) -> dict[str, list[Any]]:
    """The most important features and their columns; of features that share columns only the more important one."""
    table = as_table(data.X)
    label = dict(zip(table.names, table.labels, strict=True))
    chosen: dict[str, list[Any]] = {}
    for one in first._ranked:
        columns = [label[name] for name in one.columns]
        if len(chosen) < most and not any(column in used for used in chosen.values() for column in columns):
            chosen[one.name] = columns
    return chosen


def affordable_pairs(
    model: Any, data: ExplainedRows, chosen: Mapping[str, list[Any]], predicted: int
) -> Options | None:
    """Options with as many of the features as can be afforded in pairs, with all donors or a sample.

    As many predictions can be afforded as were made before; None if even two features take more.
    """
    allowed = max(predicted, PAIR_PREDICTIONS)
    for count in range(len(chosen), 1, -1):
        some = dict(list(chosen.items())[:count])
        pairs = chosen_pairs(as_table(data.X), some, None).features
        options = replace(data.options, features=pairs, progress=False)
        task = prepare(model, data.X, data.y, options, loss=data.loss, response=data.loss.reads)
        cells = count_importances(task)
        if not cells.grows and cells.n_predictions <= allowed:
            return replace(data.options, features=some)
        if (m := allowed // len(pairs) // len(data.y)) >= PAIR_DONORS:
            return replace(data.options, features=some, donors=Latin(min(m, len(data.y))))
    return None


def _call_named(name: str, verb: Callable[..., Any], model: Any, data: ExplainedRows) -> Any:
    """The result of a verb; an error gets the model's name."""
    try:
        return verb(model, data.X, data.y, loss=data.loss, options=data.options)
    except (ValueError, TypeError, KeyError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}: {error}") from error


def _with_all_cells(one: FeatureImportance, model: Any, data: ExplainedRows) -> FeatureImportance:
    """One feature explained again, without the others, so that all of its cells are kept."""
    memory = max(data.options.memory, one.full_size)
    if not one.design.all_pairs or memory > 4 * data.options.memory:
        return one
    options = replace(data.options, features={one.name: list(one.columns)}, memory=memory, donors=one.design)
    return importances(model, data.X, data.y, data.loss, options)[one.name]
