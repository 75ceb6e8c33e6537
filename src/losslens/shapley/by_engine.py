"""Shares from exact engines that need no single prediction: trees, and sums of products."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from losslens import game_theory
from losslens.donors.designs import All, Latin
from losslens.donors.questions import pose
from losslens.engines.kernel_machines import Products, coalition_error
from losslens.progress import Teller, Tick
from losslens.results.shapley import Shares, monte_carlo_error
from losslens.shapley import ways
from losslens.shapley.allotment import Allotment, Orders, circles, everybody, from_all, met, nobody_drawn
from losslens.shapley.games import Board, RowGame, TotalGame
from losslens.shapley.stopping import StoppingRule, joint_reach
from losslens.shapley.walk_kinds import sampling_error
from losslens.text import size_in_words
from losslens.typing import Floats, Indices, Mask

if TYPE_CHECKING:
    from losslens.engines.trees.engine import Trees

FEW_DONORS = 6  # a row, where single pairs are looked at for the sampling error alone
MOST_CELLS = 4e8  # pairs times coalitions that are looked at for it: some seconds
FEWEST_CIRCLES = 8  # of orders, before their error is looked at
PRECISE = 0.005  # of the whole: orders are drawn until the Monte-Carlo error is below
TOGETHER = 1 << 18  # cells of pairs and coalitions that are handled at a time


def prepare(way: str) -> None:
    """Import what is compiled the first time on a machine, so that somebody can be told what the wait is for."""
    compiled = {"tree pairs": "pair_games", "single tree": "coalitions"}
    compiled |= {"tree totals": "coalitions", "tree orders": "coalitions", "device pairs": "coalitions"}
    if way in compiled:
        import_module(f"losslens.engines.trees.{compiled[way]}")


def columns(board: Board) -> list[tuple[int, ...]]:
    """The columns of each player."""
    return [player.feature.columns for player in board.players]


def of_pairs(board: Board, engine: Trees, keeps: bool, n_jobs: int | None, tick: Tick) -> Allotment:
    """Every pair, every coalition, inside the trees: any loss."""
    from losslens.engines.trees.pair_games import over_pairs

    assert board.loss is not None  # `routes` has asked
    found = over_pairs(
        engine.bound, columns(board), board.sample, board.loss, n_jobs=n_jobs, tick=tick, keep_cells=keeps
    )
    return Allotment(
        sfimp=board.sample.weight @ found.local,
        method="all coalitions",
        error_none=float(found.errors[0]),
        shares=Shares(found.local, found.caused, everybody(board.n), found.cells),
        gains=found.local.sum(axis=1),
        table=found.errors,
        monte_carlo_error=nobody_drawn(board.p),
    )


def of_means(board: Board, engine: Trees, donors: Indices, tick: Tick) -> Allotment:
    """SAGE's game inside the trees: all coalitions of all pairs, averaged over the donors before they are judged."""
    from losslens.engines.trees.pair_games import pair_predictions

    p, weight = board.p, board.sample.weight[donors]
    local, table = np.empty((board.n, p)), np.zeros(1 << p)
    some = max(1, TOGETHER >> p)
    for i in range(board.n):
        mean: Floats | float = 0.0
        for start in range(0, len(donors), some):
            part = slice(start, start + some)
            raw = pair_predictions(engine.bound, columns(board), np.full(len(donors[part]), i), donors[part])
            said = engine.bound.respond(raw.reshape(-1, raw.shape[2]))
            said = said.reshape(*raw.shape[:2], *said.shape[1:])
            mean = mean + np.tensordot(weight[part] / weight.sum(), said, 1)
        losses = board.judge(np.full(1 << p, i), np.asarray(mean))
        local[i] = game_theory.values(losses)
        table += board.sample.weight[i] * losses
        tick(len(donors))
    return Allotment(
        sfimp=board.sample.weight @ local, method="all coalitions", error_none=float(table[0]),
        shares=Shares(local, None, everybody(board.n)), gains=local.sum(axis=1), table=table,
        monte_carlo_error=nobody_drawn(p),
    )  # fmt: skip


def of_single_tree(board: Board, engine: Trees, tick: Tick) -> Allotment:
    """Every coalition of a single tree: rows and donors in closed form, any loss."""
    loss, sample, said = board.loss, board.sample, engine.said_by_leaves
    assert loss is not None
    y = sample.target(loss)

    def leaf_loss(leaves: Indices, rows: Indices) -> Floats:
        return loss(y[rows], sample.shown(loss, said[leaves]))

    def errors(S: Mask) -> tuple[Floats, Floats]:
        tick(1)
        return engine.errors_of_single_tree(_kept(board, S), leaf_loss, sample.weight)

    return from_all(board, RowGame(errors, sample.weight), everybody(board.n))


def of_device_pairs(board: Board, engine: Trees, tick: Tick) -> Allotment:
    """Every coalition, every pair, on a device: rows and donors, any named loss."""
    loss, sample = board.loss, board.sample
    assert loss is not None  # `routes` has asked
    prepared = engine.device_pairs(loss, np.asarray(sample.target(loss), float), sample.weight)
    used, p = _used(board, engine), len(board.mixer.table.names)
    known: dict[bytes, tuple[Floats, Floats]] = {}

    def errors(S: Mask) -> tuple[Floats, Floats]:
        tick(1)
        if S[used].all():  # the rows as they are
            assert sample.loss is not None
            return sample.loss, np.full(board.n, sample.error)
        mine = (S & used).tobytes()
        if mine not in known:  # who is not asked for changes nothing, to the last bit
            known.clear()  # it comes next, or not at all
            known[mine] = prepared.means(np.isin(np.arange(p), _kept(board, S)))
        return known[mine]

    return from_all(board, RowGame(errors, sample.weight), everybody(board.n))


def _used(board: Board, engine: Trees) -> Mask:
    """The players whom a tree asks for."""
    from losslens.engines.trees.node_rules import FEATURE

    asked = np.isin(np.arange(len(board.mixer.table.names)), engine.bound.nodes[:, FEATURE])
    return np.array([bool(asked[list(player.feature.columns)].any()) for player in board.players])


def tree_totals(board: Board, engine: Trees, tick: Tick) -> TotalGame:
    """Squared errors of coalitions over all pairs, from the leaves."""
    assert board.loss is not None
    target = engine.squared_target(board.loss, board.sample.target(board.loss))
    assert target is not None  # `routes` has asked
    prepared = engine.coalition_errors(target, board.sample.weight)
    used = _used(board, engine)
    known: dict[bytes, tuple[float, float]] = {}

    def both(S: Mask) -> tuple[float, float]:
        """Coalitions that differ by players whom no tree asks for are the same one, to the last bit."""
        mine, others = (S & used).tobytes(), (~S & used).tobytes()
        if mine not in known:
            known[mine] = counted(S)
            known[others] = known[mine][1], known[mine][0]
        return known[mine]

    def counted(S: Mask) -> tuple[float, float]:
        tick(1)
        if board.whole:
            return prepared.errors(_kept(board, S))
        return prepared.error(_kept(board, S)), prepared.error(_kept(board, ~S))

    return TotalGame(both)


def product_totals(board: Board, engine: Products, tick: Tick) -> TotalGame:
    """The same for sums of products."""
    sample = board.sample
    images = [engine.images(pose(s, All(), board.n, 0).ask)[0] for s in board.players]

    def one(S: Mask) -> float:
        tick(1)
        lent = sorted({int(j) for k in np.flatnonzero(~S) for j in images[k]})
        return coalition_error(engine.form, engine.matrix, lent, np.asarray(sample.y, float), sample.weight)

    return TotalGame(lambda S: (one(S), one(~S)))


def _kept(board: Board, S: Mask) -> Indices:
    """The columns that rows keep: those of the coalition, and those of no player."""
    replaced = [j for k in np.flatnonzero(~S) for j in board.players[k].feature.columns]
    return np.setdiff1d(np.arange(len(board.mixer.table.names)), replaced)


def of_totals(board: Board, game: TotalGame, gains: Floats | None, absent: str) -> Allotment:
    """Every coalition's total: nothing is known of single rows, but what they gain by all features."""
    found = from_all(board, game, everybody(board.n))
    return replace(found, gains=gains, absent=absent)


def of_orders(
    board: Board, game: TotalGame, gains: Floats | None, absent: str, most: int, rule: StoppingRule,
    rng: np.random.Generator, tell: Teller,
) -> Allotment:  # fmt: skip
    """Exact totals along random circles of features: the only noise is in the orders."""
    nothing, everything = (next(iter(game.values(np.full((1, board.p), full)))).total for full in (False, True))
    total, rounds, complete = nothing - everything, [], True
    width = rule.half_width(total, 0.0)
    try:
        for shares in circles(game, board.p, rng):
            rounds.append(shares)
            precise = _is_precise(rounds, total, width, tell)
            if precise or len(rounds) >= most:
                break
    except KeyboardInterrupt:
        if len(rounds) < 2:
            raise
        complete = False
    orders = Orders(np.array(rounds))
    short = "the most work of a call ended it before the precision was reached"
    return Allotment(
        sfimp=orders.mean, method="orders of exact totals", design=f"{2 * board.p * len(rounds):,} orders", exact=False,
        error_none=nothing, gains=gains, monte_carlo_error=orders.std_error, freedom=orders.freedom, absent=absent,
        complete=complete, remarks=(short,) if complete and width and not precise else (),
    )  # fmt: skip


def _is_precise(rounds: list[Floats], total: float, width: float | None, tell: Teller) -> bool:
    """Whether the orders are; after every fourth round, so that looking often does not make a lucky look."""
    if len(rounds) < FEWEST_CIRCLES or len(rounds) % 4:
        return False
    orders = Orders(np.array(rounds))
    widest = float(orders.std_error.max())
    if total:
        tell.say(f"± {1.96 * widest / abs(total):.2%} of the whole")
    return (
        joint_reach(orders.rounds.shape[1], orders.freedom) * widest <= width
        if width
        else widest <= PRECISE * abs(total)
    )


def with_sampling_error(
    found: Allotment, board: Board, engine: Trees, rng: np.random.Generator, n_jobs: int | None
) -> Allotment:
    """The sampling error of totals, from a few pairs of each row whose shares are looked at one by one."""
    from losslens.engines.trees.pair_games import pair_shares

    m = min(FEW_DONORS, board.n)
    if board.p > 24 or board.n * m * 2.0**board.p > MOST_CELLS or m < 3:
        return replace(found, remarks=(*found.remarks, "the sampling error is not known: single rows are too dear"))
    assert board.loss is not None
    donors = Latin(m).draw(board.n, rng)
    rows = np.repeat(np.arange(board.n), m)
    cells = pair_shares(
        engine.bound, columns(board), board.sample, board.loss, rows, donors.ravel(), n_jobs=n_jobs
    ).reshape(board.n, m, board.p)
    shares = Shares(cells.mean(axis=1), None, met(donors), cells)
    drawn = monte_carlo_error(shares, board.sample, np.arange(board.n))
    return replace(found, sampling=sampling_error(board, shares, drawn))


def what_rows_take(n: int, p: int) -> str:
    """What it would take to know single rows where only totals are affordable."""
    cells = n * (n - 1) / 2 * ways.coalition_count(p)
    return (
        f"the totals of coalitions need no pairs; single rows would take {cells:.2g} cells of pairs and coalitions. "
        f"Explain fewer rows, or use method='walk' (its results take {size_in_words(40 * n * p)} a sweep)"
    )
