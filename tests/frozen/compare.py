"""Two sets of records: what is equal, what is off, and what is computed in another way.

A way is the engine, method, design and exactness that the innermost object around a number states. Numbers of the same
way are equal to the bit. Where the way is another one, importances are compared in units of their Monte-Carlo standard
errors, and if nothing is drawn on either side by relative difference.
"""

from collections import Counter
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm
from tests.frozen.records import MODEL, SEP
from tests.fuzz.numbers import TOLERANCE, XGBOOST

WAY = ("engine", "method", "design", "exact")
COSTS = {"n_predictions", "full_size"}  # listed: fewer are an improvement
TOTALS = ("pfi", "sfimp")  # importances, whose interval of the draw tells the Monte-Carlo error
UNDRAWN = {"error", "error_all", "error_constant", "skill"}  # depend on no donor
FAR = 4.0  # standard errors
RENAMED: dict[str, str] = {}  # names of attributes since the numbers were frozen: old -> new


@dataclass
class Verdict:
    """What a comparison found; `failures` fail it, the rest is to be read."""

    failures: list[str] = field(default_factory=list)
    ways: list[tuple[str, str, str]] = field(default_factory=list)  # call, way before, way now
    z: list[float] = field(default_factory=list)  # differences in standard errors, of importances
    z_rows: list[float] = field(default_factory=list)  # likewise of single rows
    equal: int = 0  # numbers
    close: int = 0  # compared by relative difference, because they are computed in another way
    unchecked: int = 0  # of another way, without a Monte-Carlo error
    gone: Counter = field(default_factory=Counter)  # attributes
    new: Counter = field(default_factory=Counter)
    listed: list[str] = field(default_factory=list)  # costs and words that differ, calls of one side

    def __str__(self):
        lines = [f"FAILED {one}" for one in self.failures]
        lines += [f"listed {one}" for one in self.listed]
        for title, names in (("gone", self.gone), ("new", self.new)):
            lines += [f"{title}: " + ", ".join(f"{name} ({n})" for name, n in names.most_common())] if names else []
        if self.ways:
            width = max(len(call) for call, _, _ in self.ways)
            lines += ["computed in another way:", *(f"  {c:{width}s}  {a}  ->  {b}" for c, a, b in self.ways)]
        for title, z in (("importances", self.z), ("single rows", self.z_rows)):
            if z:
                square, most = np.mean(np.square(z)), np.max(np.abs(z))
                lines.append(f"{len(z):,} {title} in standard errors: mean square {square:.2f}, largest {most:.1f}")
        lines.append(
            f"{self.equal:,} numbers equal, {self.close:,} of another way compared, {self.unchecked:,} of another way "
            f"without a Monte-Carlo error, {len(self.failures)} failures"
        )
        return "\n".join(lines)


def compare(old, new, rounding=0.0, words=False):
    """rounding: the relative difference that kept ways may have; words: names and rules may differ."""
    verdict = Verdict()
    verdict.listed += [f"{name}: no such call any more" for name in old.keys() - new.keys()]
    verdict.listed += [f"{name}: a new call" for name in new.keys() - old.keys()]
    for name in [name for name in old if name in new]:
        _Pair(name, _renamed(old[name]), new[name], verdict, rounding, words).compare()
    return verdict


def _renamed(one):
    if RENAMED:
        for what in (one.numbers, one.labels, one.words):
            moved = {SEP.join(RENAMED.get(part, part) for part in path.split(SEP)): v for path, v in what.items()}
            what.clear()
            what.update(moved)
    return one


@dataclass
class _Pair:
    """The same call, before and now."""

    name: str
    old: object
    new: object
    verdict: Verdict
    rounding: float
    words: bool

    def compare(self):
        old, new, verdict = self.old, self.new, self.verdict
        if old.raised or new.raised:
            if old.raised.partition(":")[0] != new.raised.partition(":")[0]:
                self.fail("", f"{old.raised or 'a result'} -> {new.raised or 'a result'}")
            elif old.raised != new.raised:
                self.listing("", old.raised, new.raised)
            return
        if not _same(old.numbers.get(MODEL), new.numbers.get(MODEL)):
            self.fail(MODEL, "differ: other libraries, or another model; its numbers are not compared")
            return
        before, now = _ways(old), _ways(new)
        of_call = self.name, _said(before), _said(now)
        if before != now:
            verdict.ways.append(of_call)
        self.shared(before, now)
        held = [{*one.numbers, *one.labels, *one.words} for one in (old, new)]
        verdict.gone.update(path.rpartition(SEP)[2] for path in held[0] - held[1])
        verdict.new.update(path.rpartition(SEP)[2] for path in held[1] - held[0])

    def shared(self, before, now):
        loose = self.name.startswith("plan/")
        for path, a in self.old.numbers.items():
            b, owner, kept = self.new.numbers.get(path), _owner(path, before), _kept(path, before, now)
            if b is None:
                if path in self.new.words and kept:
                    self.fail(path, f"a number -> {self.new.words[path]}")
            elif loose or path.rpartition(SEP)[2] in COSTS:
                if not loose and not _same(a, b):
                    self.listing(path, a, b)
                elif loose and not np.allclose(a, b, rtol=1.0, atol=1e-2):
                    self.listing(path, a, b)
            elif kept:
                self.kept(path, a, b)
            else:
                self.replaced(path, owner, a, b)
        for path, a in self.old.labels.items():
            b = self.new.labels.get(path)
            if b is not None and a != b:
                at = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
                strict = _kept(path, before, now) and not self.words and not loose
                (self.fail if strict else self.listing)(path, f"{a[at : at + 1]} -> {b[at : at + 1]} at {at}")
        for path, a in self.old.words.items():
            b = self.new.words.get(path)
            if b is not None and a != b and path.rpartition(SEP)[2] not in WAY:
                self.listing(path, a, b)

    def kept(self, path, a, b):
        gap = 0.0 if _same(a, b) else _gap(a, b)
        if gap > self.rounding:
            self.fail(path, f"off by {gap:.1e} of its largest value")
        else:
            self.verdict.equal += a.size

    def replaced(self, path, owner, a, b):
        error, name = self.error(path, owner), path.rpartition(SEP)[2]
        if error is not None and a.shape == b.shape and np.any(error > 0):
            counted = np.isfinite(error) & (error > 0) & np.isfinite(a) & np.isfinite(b)
            z = (b - a)[counted] / error[counted]
            (self.verdict.z if name in TOTALS else self.verdict.z_rows).extend(z.tolist())
            # Of many rows some are further away: as unlikely as one number beyond FAR.
            limit = FAR if name in TOTALS else norm.isf(norm.sf(FAR) / max(1, z.size))
            if z.size and np.abs(z).max() > limit:
                self.fail(path, f"{np.abs(z).max():.1f} Monte-Carlo standard errors away")
        elif name in UNDRAWN or (name in TOTALS and error is not None) or self.exact(owner):
            self.verdict.close += a.size
            scale = max((abs(float(one.numbers.get(_at(owner, "error"), 0.0))) for one in (self.old, self.new)))
            gap = _gap(a, b, scale)
            if gap > (XGBOOST if "xgboost" in self.name.lower() else TOLERANCE):
                self.fail(path, f"off by {gap:.1e}, computed in another way")
        else:
            self.verdict.unchecked += a.size

    def error(self, path, owner):
        """The Monte-Carlo standard error of both sides together; None where none is stated."""
        name = path.rpartition(SEP)[2]
        found = [_error(one, owner, name) if path == _at(owner, name) else None for one in (self.old, self.new)]
        return None if None in [type(one) if one is None else 0 for one in found] else np.hypot(*found)

    def exact(self, owner):
        """Whether nothing is drawn on either side, not even for single rows."""
        for one in (self.old, self.new):
            drawn = one.numbers.get(_at(owner, "local_error"), np.zeros(1))
            if not one.numbers.get(_at(owner, "exact"), 0) or not np.all(drawn == 0):
                return False
        return True

    def fail(self, path, why):
        self.verdict.failures.append(f"{self.name} {path}: {why}")

    def listing(self, path, *why):
        self.verdict.listed.append(f"{self.name} {path}: {' -> '.join(str(one)[:80] for one in why)}")


def _at(owner, name):
    return SEP.join(filter(None, (owner, name)))


def _error(one, owner, name):
    numbers = one.numbers
    if name in TOTALS:
        ends = [numbers.get(_at(owner, f"interval of the draw{end}")) for end in ("", SEP + "0", SEP + "1")]
        if ends[0] is not None:  # (2,)
            return np.asarray(np.diff(ends[0])[0] / 2 / norm.ppf(0.975))
        return None if ends[1] is None else (ends[2] - ends[1]) / 2 / norm.ppf(0.975)
    if name == "local":
        for of in ("local_error", "std_error"):  # the latter of Shapley effects
            found = numbers.get(_at(owner, of))
            if found is not None and found.shape == numbers[_at(owner, name)].shape:
                return found
    return None


def _ways(one):
    """The way of each object that states one, by its path."""
    found = {}
    for name in WAY:
        for held in (one.words, one.numbers):
            for path, value in held.items():
                owner, _, last = path.rpartition(SEP)
                if last == name:
                    found.setdefault(owner, {})[name] = str(value)
    return {owner: tuple(way.get(name, "") for name in WAY) for owner, way in found.items()}


def _owner(path, ways):
    while path:
        path = path.rpartition(SEP)[0]
        if path in ways:
            return path
    return ""


def _kept(path, before, now):
    """Whether the innermost object with a way has kept it; where there is none, whether all of the call have."""
    owner = _owner(path, before)
    return before == now if owner not in before else before[owner] == now.get(owner)


def _said(ways):
    return " | ".join(dict.fromkeys(", ".join(filter(None, way)) for way in ways.values()))


def _same(a, b):
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def _gap(a, b, scale=0.0):
    """The largest difference over the largest value, or a larger scale."""
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(a)
    gap = np.max(np.abs(a - b)[finite], initial=0.0)
    return gap / max(np.max(np.abs(a[finite]), initial=0.0), scale) if gap else 0.0
