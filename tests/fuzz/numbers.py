"""Random models, losses, designs and containers against brute force with the model's own predict.

A world is a fitted model and a table of a few rows. The model is asked once for every coalition of columns of every
pair of rows; what losslens says is compared with means over these predictions. A case is one checked vector: one
quantity (an importance, local importances, a curve, shares of Shapley) of one feature in one call.

The gap of a case is its largest absolute difference over the scale of what is compared: for losses the larger of the
mean losses over all pairs with and without replaced values, for predictions the spread of the predictions of all
pairs, or a millionth of the largest where that is more: nearly constant predictions have no more digits.
The unit and the origin of y are drawn too.
"""

import traceback
import warnings
from collections import defaultdict
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations

import numpy as np
from sklearn.metrics import get_scorer
from tests.fuzz.worlds import LOSSES, POSITIVE, SCORERS, VALUES, World, assembled, mixed, pick, plain_value

import brute
import coalitions
import losslens as ll

TOLERANCE = 1e-9
XGBOOST = 1e-5  # its own sums are in single precision: docs/engines.md


@dataclass
class Tally:
    """Cases, gaps and failures."""

    cases: int = 0
    worst: dict = field(default_factory=lambda: defaultdict(float))
    worst_of: dict = field(default_factory=dict)  # how to repeat it
    count: dict = field(default_factory=lambda: defaultdict(int))
    failures: list = field(default_factory=list)
    worlds: int = 0

    def __str__(self):
        rows = [
            f"  {engine:32s} {self.count[engine]:>8,} cases, largest gap {self.worst[engine]:.1e}"
            for engine in sorted(self.count)
        ]
        return f"{self.cases:,} cases in {self.worlds:,} worlds, {len(self.failures)} failures\n" + "\n".join(rows)


@dataclass
class Checks(World):
    """A world, and what losslens says of it."""

    tally: Tally

    def check(self, what, engine, found, expected, scale, slack=0.0):
        """Count a case; `slack`: what single precision may move a single cell by, of XGBoost."""
        found, expected = np.asarray(found, float), np.asarray(expected, float)
        tally, key = self.tally, f"{engine}, {'xgboost' if self.xgboost else 'others'}"
        tally.cases += 1
        tally.count[key] += 1
        bound = max(XGBOOST, slack / scale if scale > 0 else 0.0) if self.xgboost else TOLERANCE
        if found.shape != expected.shape:
            gap = np.inf
        else:
            both = np.isfinite(expected) | np.isfinite(found)
            gap = (
                float(np.max(np.abs(found - expected)[both], initial=0.0)) / scale
                if scale > 0
                else float(np.abs(found - expected).max() > 0)
            )
            gap = np.inf if np.isnan(gap) else gap
        again = f"{self}: {what} by {engine}: gap {gap:.1e}; {_again(self.seed, self.number)}"
        if gap >= tally.worst[key]:
            tally.worst[key], tally.worst_of[key] = gap, again
        if gap > bound:
            tally.failures.append(again)

    def run(self):
        rng = self.rng
        self.tally.worlds += 1
        if not self.k and not np.isfinite(self.pairs("values")).all():  # transformed targets far from those of the fit
            return
        for loss, reads in self.losses(rng):
            self.importances(rng, loss, reads)
        loss, reads = self.losses(rng)[0]
        self.shapley(rng, loss, reads)
        self.interactions(rng, loss, reads)
        self.effects(rng)
        self.product_grid(rng, loss, reads)
        if rng.random() < 0.3 and self.name != "function" and not self.positive:
            self.scores(rng)

    def importances(self, rng, loss, reads):
        asked, judge = self.judge(loss)
        table = self.table_of(judge, reads)
        weight = self.weights(rng)
        design = pick(rng, self.designs())
        groups = None
        if rng.random() < 0.25 and design in ("auto", "all"):
            groups = pick(rng, [np.arange(self.n) // 2, np.arange(self.n) % 3, np.minimum(np.arange(self.n), 2)])
        one, other = (int(j) for j in rng.choice(4, 2, replace=False))
        features = {name: [name] if not isinstance(self.X, np.ndarray) else [j] for j, name in enumerate(self.names)}
        features["both"] = features[self.names[one]] + features[self.names[other]]
        if isinstance(design, ll.Systematic):
            features.pop("both")
        found = ll.feature_importance(
            self.model, self.table, self.y, loss=asked, features=features, donors=design, sample_weight=weight,
            groups=groups,
            random_state=int(rng.integers(100)), progress=False, n_jobs=1,
        )  # fmt: skip
        places = {name: [j] for j, name in enumerate(self.names)} | {"both": [one, other]}
        rows = np.sort(rng.choice(self.n, max(2, self.n // 2), replace=False))
        if weight is not None and not (weight[rows] > 0).any():
            rows = np.arange(3)
        w = np.ones(self.n) if weight is None else weight
        own = table[-1].diagonal()
        error = w @ own / w.sum()
        others = [
            name
            for name in ((POSITIVE if self.positive else VALUES) if reads == "values" else LOSSES[reads])
            if name != loss
        ]
        for name, one_found in found.items():
            columns = places[name]
            cells = table[15 - sum(1 << j for j in columns)] - own[:, None]
            of = _Means(self, cells, one_found, w, groups, columns)
            scale = max(float(own.mean()), float((cells + own[:, None]).mean()))
            slack = self.slack(judge, reads)
            more = ("weights, " if weight is not None else "") + ("groups, " if groups is not None else "")
            said = f"{loss}, {design}, {more}{name}"
            check = partial(self.check, engine=one_found.engine, scale=scale, slack=slack)
            check(f"error of {said}", found=one_found.error, expected=error, slack=0.0)
            of.compare(check, said, one_found)
            if error > 0:
                check(f"ratio of {said}", found=one_found.ratio * error, expected=error + of.pfi, slack=0.0)
            part = one_found.given(rows)
            _Means(self, cells, part, w, groups, columns, rows).compare(check, f"given, {said}", part)
            label = np.arange(self.n) % 2
            for at, piece in one_found.by(label).items():
                if w[label == at].sum() > 0:
                    _Means(self, cells, piece, w, groups, columns, np.flatnonzero(label == at)).compare(
                        check, f"by, {said}", piece, few=True
                    )
            if design in ("auto", "all") and groups is None and (w[rows] > 0).sum() > 1:
                subset = one_found.subset(rows)
                inner = cells[np.ix_(rows, rows)]
                expected = brute.averages(inner, np.ones_like(inner), w[rows])
                check(f"subset pfi of {said}", found=subset.pfi, expected=expected.pfi)
                check(f"subset local of {said}", found=subset.local, expected=expected.local)
            if others and one_found.complete:
                instead = pick(rng, others)
                asked_too, judge_too = self.judge(instead)
                changed, again = one_found.with_loss(asked_too), self.table_of(judge_too, reads)
                own_too = again[-1].diagonal()
                cells_too = again[15 - sum(1 << j for j in columns)] - own_too[:, None]
                larger = max(float(own_too.mean()), float((cells_too + own_too[:, None]).mean()))
                _Means(self, cells_too, changed, w, groups, columns).compare(
                    partial(self.check, engine=one_found.engine, scale=larger, slack=self.slack(judge_too, reads)),
                    f"with_loss({instead}) of {said}",
                    changed,
                    few=True,
                )
            if reads == "values":
                self.effect(one_found.effect, columns, w, said)

    def effect(self, effect, columns, w, said, reads="values", k=None):
        """PD and ICE."""
        said_f = self.pairs(reads)[15 - sum(1 << j for j in columns)]
        said_f = said_f if k is None else said_f[..., k]
        scale = _spread(self.pairs(reads) if k is None else self.pairs(reads)[..., k])
        check = partial(self.check, engine=effect.engine, scale=scale, slack=self.moved(reads, k))
        if not effect.design.common or effect.design.leaves_out_own or effect.sample.block is not None:
            return
        at = self.at(effect, columns)
        held = at >= 0
        check(f"ice of {said}", found=effect.ice[:, at[held]], expected=said_f[:, held])
        check(f"pd of {said}", found=effect.pd[at[held]], expected=w @ said_f[:, held] / w.sum())

    def at(self, found, columns):
        """The grid position of what each row holds; -1 where it is not on the grid."""
        return self.at_values(found.grid, columns)

    def at_values(self, grid, columns):
        values = (
            [tuple(map(plain_value, row)) for row in grid.tolist()]
            if grid.ndim == 2
            else [(plain_value(value),) for value in grid.tolist()]
        )
        place = {value: k for k, value in enumerate(values)}
        for c, own in enumerate(zip(*values, strict=True)):  # a single missing value stands for one of any kind
            kinds = {value for value in own if value[0] == "missing"}
            if len(kinds) == 1:
                any_kind = [("missing", "None"), ("missing", "NaN")]
                missing = {value: at for value, at in place.items() if value[c] in kinds}
                place |= {(*v[:c], kind, *v[c + 1 :]): at for v, at in missing.items() for kind in any_kind}
        return np.array([place.get(key, -1) for key in self.keys_of(columns)])

    def shapley(self, rng, loss, reads):
        asked, judge = self.judge(loss)
        table = self.table_of(judge, reads)
        weight, apart = self.weights(rng), rng.random() < 0.3
        averaged = not apart and rng.random() < 0.25
        if averaged and reads == "labels":
            averaged = False
        n, w, method = self.n, np.ones(self.n) if weight is None else weight, pick(rng, ["auto", "exact"])
        found = ll.shapley_importance(
            self.model, self.table, self.y, loss=asked, donors=ll.Derangements() if apart else "all",
            sample_weight=weight, random_state=0,
            method=ll.Sage(method) if averaged else method, progress=False, n_jobs=1,
        )  # fmt: skip
        more = ("weights, " if weight is not None else "") + ("Derangements" if apart else "all")
        said = f"Shapley {loss}, {more}, {found.method}"
        if not found.exact:
            self.tally.failures.append(f"{self}: {said} is not exact")
            return
        own = table[-1].diagonal()
        if averaged:
            f = self.pairs(reads)
            mean = (
                np.tensordot(f, w / w.sum(), axes=(2, 0)) if f.ndim == 3 else np.einsum("sikc,k->sic", f, w / w.sum())
            )
            y = np.tile(self.target, 16)
            losses = np.asarray(judge(y, mean.reshape(-1, *mean.shape[2:])), float).reshape(16, n)
            local = coalitions.by_orders(losses).T
            errors = losses @ w / w.sum()
            sfimp = w @ local / w.sum()
        else:
            mass = np.outer(w, w) * (1 - np.eye(n) if apart else 1)
            cells = coalitions.by_orders(table)
            with np.errstate(invalid="ignore"):
                local = (cells * mass / mass.sum(axis=1, keepdims=True)).sum(axis=2).T
            errors = w @ own / w.sum() + ((table - own[:, None]) * mass).sum(axis=(1, 2)) / mass.sum()
            sfimp = (cells * mass).sum(axis=(1, 2)) / mass.sum()
        scale = max(float(own.mean()), float(table.mean()))
        check = partial(self.check, engine=found.engine, scale=scale, slack=2 * self.slack(judge, reads))
        check(f"error_all of {said}", found=found.error_all, expected=errors[-1], slack=0.0)
        check(f"error_none of {said}", found=found.error_none, expected=errors[0], slack=0.0)
        for j, name in enumerate(self.names):
            check(f"sfimp of {said}, {name}", found=found.sfimp[j], expected=sfimp[j], slack=0.0)
            counted = w > 0 if apart else slice(None)
            check(f"local of {said}, {name}", found=found.local[counted, j], expected=local[counted, j])
            if not averaged:
                curve = found.curve(name)
                at = self.at(curve, [j])
                rows = mass.sum(axis=1)
                expected = np.array([_mean(local[at == k, j], rows[at == k]) for k in range(len(curve.grid))])
                kept = np.isfinite(expected)
                check(f"curve of {said}, {name}", found=curve.importance[kept], expected=expected[kept])
        if not averaged and (found.table is not None or found.index is not None):
            check(f"interactions of {said}", found=found.interactions.index, expected=coalitions.interactions(errors))
        first = np.arange(n) < n // 2
        if w[first].any() and w[~first].any():
            gap, counted = found.gap(first), np.where(w[:, None] > 0, local, 0.0)
            lines = np.column_stack([own + counted.sum(axis=1), -counted])
            parts = [w[rows] @ lines[rows] / w[rows].sum() for rows in (first, ~first)]
            check(f"gap of {said}", found=gap.parts, expected=parts[0] - parts[1])
            check(f"sum of the gap of {said}", found=gap.parts.sum(), expected=gap.error[0] - gap.error[1], slack=0.0)
        group = {"one": self.columns([0, 1]), "two": self.columns([2]), "three": self.columns([3])}
        if not averaged:
            together = ll.shapley_importance(
                self.model, self.table, self.y, loss=asked, features=group, sample_weight=weight, random_state=0,
                progress=False, n_jobs=1,
                donors=ll.Derangements() if apart else "all",
            )  # fmt: skip
            kept = [
                sum((place & 1) * 3 + (place >> 1 & 1) * 4 + (place >> 2 & 1) * 8 for _ in [0]) for place in range(8)
            ]
            cells = coalitions.by_orders(table[kept])
            for j, name in enumerate(group):
                check(
                    f"sfimp of {said}, group {name}",
                    found=together.sfimp[j],
                    expected=(cells[j] * mass).sum() / mass.sum(),
                )

    def interactions(self, rng, loss, reads):
        asked, judge = self.judge(loss)
        table = self.table_of(judge, reads)
        weight = self.weights(rng)
        w = np.ones(self.n) if weight is None else weight
        found = ll.pair_interactions(
            self.model, self.table, self.y, loss=asked, donors="all", sample_weight=weight, progress=False, n_jobs=1
        )
        errors = np.einsum("sik,i,k->s", table, w, w) / w.sum() ** 2
        scale = max(float(table[-1].mean()), float(table.mean()))
        for j, k in combinations(range(4), 2):
            without = errors[15 - (1 << j)] + errors[15 - (1 << k)] - errors[15 - (1 << j) - (1 << k)] - errors[15]
            self.check(
                f"interaction of {self.names[j]} and {self.names[k]}, {loss}",
                "pairs",
                found.index[j, k],
                without,
                scale,
            )

    def effects(self, rng):
        reads = "values" if not self.k else next((r for r in ("probabilities", "scores") if r in self.responses), None)
        if reads is None or (self.name == "function" and self.k):
            return
        k = None
        target = {}
        if self.k and reads == "probabilities":
            k = self.k - 1
            target = {"target": np.unique(self.model.classes_).tolist()[k]}
        elif self.k:
            k = None if self.k == 2 else self.k - 1
            target = {"target": np.unique(self.model.classes_).tolist()[-1]}
        weight = self.weights(rng)
        w = np.ones(self.n) if weight is None else weight
        for name, effect in ll.feature_effect(
            self.model, self.table, sample_weight=weight, progress=False, n_jobs=1, **target
        ).items():
            self.effect(effect, [self.names.index(name)], w, f"effect of {name}", reads, k)
        rows = np.sort(rng.choice(self.n, 3, replace=False))
        found = ll.shapley_effect(
            self.model, self.table, rows, sample_weight=weight, random_state=0, progress=False, n_jobs=1, **target
        )
        f = self.pairs(reads) if k is None else self.pairs(reads)[..., k]
        games = np.tensordot(f, w / w.sum(), axes=(2, 0))[:, rows]
        expected = -coalitions.by_orders(games)
        check = partial(self.check, engine=found.engine, scale=_spread(f), slack=2 * self.moved(reads, k))
        for j, name in enumerate(self.names):
            check(f"Shapley effect of {name}, {found.method}", found=found.local[:, j], expected=expected[j])

    def product_grid(self, rng, loss, reads):
        """A pair of columns: the mean change of loss with every row at each two values."""
        asked, judge = self.judge(loss)
        weight = self.weights(rng)
        w = np.ones(self.n) if weight is None else weight
        one, other = (int(j) for j in rng.choice(4, 2, replace=False))
        pair = tuple(self.columns([one, other]))
        (found,) = ll.feature_importance(
            self.model,
            self.table,
            self.y,
            loss=asked,
            features=pair,
            sample_weight=weight,
            donors="all",
            progress=False,
        ).values()
        rows, first, second = (np.ravel(at) for at in np.indices((self.n,) * 3))
        index = [first if j == one else second if j == other else rows for j in range(4)]
        said = np.asarray(self.respond(assembled(self.X, index), reads))
        said = said.astype(float) if reads == "values" else said
        losses = np.asarray(judge(self.target[rows], said), float).reshape((self.n,) * 3)
        own = self.table_of(judge, reads)[-1].diagonal()
        expected = np.tensordot(w / w.sum(), losses - own[:, None, None], axes=1)
        at = [self.at_values(grid, [j]) for grid, j in zip(found.grid, (one, other), strict=True)]
        scale = max(float(own.mean()), float(losses.mean()))
        name = f"pi of the pair {pair}, {loss}"
        self.check(name, found.engine, found.pi[np.ix_(*at)], expected, scale, self.slack(judge, reads))

    def scores(self, rng):
        """A scorer gives one number for all rows: its mean over the n cyclic shifts of the donors."""
        reads = pick(rng, [reads for reads in self.responses if reads in SCORERS] or [None])
        if reads is None or (reads == "probabilities" and len(np.unique(self.y)) < self.k):
            return
        scorer = get_scorer(SCORERS[reads])
        found = ll.feature_importance(
            self.model, self.table, self.y, loss=scorer, donors="all", random_state=1, progress=False
        )
        rows, base = np.arange(self.n), self.score(scorer, self.X)
        for j, name in enumerate(self.names):
            shifted = [self.score(scorer, mixed(self.X, rows, np.roll(rows, -t), [j])) for t in rows]
            scale = max(map(abs, [base, *shifted])) or 1.0
            self.check(f"{scorer} of {name}", found[name].engine, found[name].pfi, base - np.mean(shifted), scale)

    def score(self, scorer, X):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return scorer(self.model, X, self.y)


class _Means:
    """What a result must say, from the cells of all pairs."""

    def __init__(self, world, cells, found, w, groups, columns, rows=None):
        self.rows = np.arange(world.n) if rows is None else rows
        count = brute.meetings(found)
        lent = count * w
        if groups is not None:
            lent = lent * (groups[:, None] != groups)
        self.mass = (w[:, None] * lent)[self.rows]
        self.cells = cells[self.rows]
        with np.errstate(invalid="ignore", divide="ignore"):
            self.local = (lent * cells).sum(axis=1)[self.rows] / lent.sum(axis=1)[self.rows]
            self.pfi = (self.mass * self.cells).sum() / self.mass.sum()
        self.w, self.count, self.world, self.columns = w, count, world, columns

    def compare(self, check, said, found, few=False):
        whole = {"slack": 0.0} if len(self.rows) == self.world.n else {}
        check(f"pfi of {said}", found=found.pfi, expected=self.pfi, **whole)
        counted = np.isfinite(self.local)
        check(f"local of {said}", found=np.asarray(found.local)[counted], expected=self.local[counted])
        if few or found.design.ranked:
            return
        at = self.world.at(found, self.columns)
        held = np.eye(len(found.grid) + 1)[at][:, :-1]  # (n, g)
        with np.errstate(invalid="ignore", divide="ignore"):
            total = self.mass.sum(axis=0) @ held
            pi = ((self.mass * self.cells).sum(axis=0) @ held) / total
        kept = total > 0
        check(f"pi of {said}", found=found.pi[kept], expected=pi[kept])
        check(f"pi @ weights of {said}", found=found.pi[kept] @ found.weights[kept], expected=self.pfi)
        if found.design.common and not found.design.leaves_out_own and found.sample.block is None:
            on = at >= 0
            check(f"ici of {said}", found=found.ici[:, at[on]], expected=self.cells[:, on])


def _spread(predictions):
    return max(float(np.ptp(predictions)), 1e-6 * float(np.abs(predictions).max())) or 1.0


def _mean(values, weight):
    return weight @ values / weight.sum() if weight.sum() > 0 else np.nan


def _again(seed, number):
    return f"again: python -m tests.fuzz numbers --seed {seed} --only {number}"


def run(seed, cases=None, worlds=None, only=None, trace=False):
    """Worlds until there are so many cases or worlds."""
    tally, number = Tally(), 0 if only is None else only
    while (cases is None or tally.cases < cases) and (worlds is None or tally.worlds < worlds):
        world = Checks(seed, number, tally)
        if trace:
            print(world)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # feature names of frames in estimators, of brute force
            try:
                world.run()
            except Exception as error:
                where = traceback.extract_tb(error.__traceback__)[-1]
                place = f"{where.filename}:{where.lineno}"
                tally.failures.append(f"{world}: {error!r} at {place}; {_again(seed, number)}")
                if trace:
                    raise
        number += 1
        if only is not None:
            break
    return tally
