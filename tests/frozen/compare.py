"""Two sets of records: what is equal, what is off, and what is computed in another way.

A way is the engine, method, design and exactness that the innermost object around a number states. Numbers of a kept
way are equal to the bit. Where it is another way, importances are compared in units of their Monte-Carlo standard
errors, and by relative difference if nothing is drawn on either side.
"""

from collections import Counter, defaultdict
from dataclasses import dataclass, field

import numpy as np
from scipy.stats import norm
from tests.frozen.records import DRAW, MODEL, SEP, Record
from tests.fuzz.numbers import TOLERANCE, XGBOOST

WAY = ("engine", "method", "design", "exact")
COSTS = {"n_predictions", "full_size"}  # listed: fewer are an improvement
TOTALS = {"pfi", "sfimp"}  # importances, with an interval of the draw
ERRORS = ("error", "error_none", "error_constant")  # the scale of importances
UNDRAWN = {"error", "error_all", "error_constant", "skill"}  # depend on no donor
RATIOS = {"p", "p_value", "p_values", "p_adjusted", "ranks", "skewness"}  # of an unused feature, of rounding errors
FAR = 4.0  # standard errors
RENAMED = {"told": "recognised", "told_p": "recognised_p"}  # attributes that have another name since: old -> new
SHOWN = 3  # lines of one call


@dataclass
class Verdict:
    """What a comparison found: `failures` fail it, the rest is to be read."""

    failures: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # by call
    listed: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))  # costs and words that differ
    ways: dict[str, str] = field(default_factory=dict)
    z: dict[str, list[float]] = field(default_factory=lambda: {"importances": [], "results with single rows": []})
    count: Counter = field(default_factory=Counter)  # of numbers
    gone: Counter = field(default_factory=Counter)  # of attributes
    new: Counter = field(default_factory=Counter)

    def __str__(self):
        lines = []
        for title, calls in (("FAILED", self.failures), ("listed", self.listed)):
            for call, found in calls.items():
                lines += [f"{title} {call}: {one}" for one in found[:SHOWN]]
                lines += [f"{title} {call}: ... and {len(found) - SHOWN} more"] if len(found) > SHOWN else []
        for title, names in (("gone", self.gone), ("new", self.new)):
            lines += [f"{title}: " + ", ".join(f"{name} ({n})" for name, n in names.most_common())] if names else []
        lines += [f"another way: {call}: {way}" for call, way in self.ways.items()]
        for title, z in self.z.items():
            if z:
                square, largest = np.mean(np.square(z)), np.max(np.abs(z))
                lines.append(f"{len(z):,} {title} in standard errors: mean square {square:.2f}, largest {largest:.1f}")
        numbers = ", ".join(f"{n:,} {what}" for what, n in self.count.most_common())
        return "\n".join([*lines, f"numbers: {numbers or 'none'}; {len(self.failures)} calls failed"])


def compare(old, new, rounding=0.0, words=False):
    """rounding: a relative difference that kept ways may have; words: names and rules may differ."""
    verdict = Verdict()
    for name, one in old.items():
        if name in new:
            _Pair(name, _renamed(one), new[name], verdict, rounding, words).compare()
        else:
            verdict.listed[name].append("no such call any more")
    for name in [name for name in new if name not in old]:
        verdict.listed[name].append("a new call")
    return verdict


@dataclass
class _Pair:
    """One call, before and now."""

    name: str
    old: Record
    new: Record
    verdict: Verdict
    rounding: float
    words: bool

    def compare(self):
        old, new = self.old, self.new
        if old.raised.partition(":")[0] != new.raised.partition(":")[0]:
            self.fail("", f"{old.raised or 'a result'} -> {new.raised or 'a result'}")
        elif old.raised != new.raised:
            self.list("", old.raised, new.raised)
        elif not _same(old.numbers.get(MODEL, np.empty(0)), new.numbers.get(MODEL, np.empty(0))):
            self.fail(MODEL, "differ: another model, or another version of its library")
        else:
            self.before, self.now = _ways(old), _ways(new)
            if self.before != self.now:
                self.verdict.ways[self.name] = f"{_in_words(self.before)} -> {_in_words(self.now)}"
            self.shared()

    def shared(self):
        old, new, loose = self.old, self.new, self.name.startswith("plan/")
        for path in _both(old.numbers, new.numbers):
            a, b = old.numbers[path], new.numbers[path]
            if loose or _last(path) in COSTS:
                if a.shape != b.shape or not np.allclose(a, b, rtol=0.5 * loose, atol=0.01 * loose, equal_nan=True):
                    self.list(path, a, b)
            else:
                (self.kept if self.has_kept(path) else self.replaced)(path, a, b)
        for path in _both(old.labels, new.labels):
            if (a := old.labels[path]) != (b := new.labels[path]):
                at = next((k for k, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
                fails = self.has_kept(path) and not (loose or self.words)
                (self.fail if fails else self.list)(path, f"[{at}] {a[at : at + 1]} -> {b[at : at + 1]}")
        for path in _both(old.words, new.words):
            if old.words[path] != new.words[path] and _last(path) not in WAY:
                self.list(path, old.words[path], new.words[path])
        for path in _both(old.numbers, new.words.keys() - new.numbers.keys()):
            (self.fail if self.has_kept(path) else self.list)(path, "a number", new.words[path])
        held = [{*one.numbers, *one.labels, *one.words} for one in (old, new)]
        self.verdict.gone.update(map(_last, held[0] - held[1]))
        self.verdict.new.update(map(_last, held[1] - held[0]))

    def has_kept(self, path):
        """Whether the innermost object with a way has the same; where there is none, all of the call."""
        owner = _owner(path, self.before)
        return self.before == self.now if owner is None else self.before[owner] == self.now.get(owner)

    def kept(self, path, a, b):
        gap = 0.0 if _same(a, b) else _gap(a, b)
        self.verdict.count["equal" if gap == 0 else "off" if gap > self.rounding else "off by rounding"] += a.size
        if gap > self.rounding:
            self.fail(path, f"off by {gap:.1e} of its largest value")

    def replaced(self, path, a, b):
        name, owner, error = _last(path), _owner(path, self.before) or "", None
        if a.shape == b.shape:
            error = _hypot(_error(self.old.numbers, path, b), _error(self.new.numbers, path, a))
        if error is not None and np.any(error > 0):
            drawn = error > 0
            (self.totals if name in TOTALS else self.rows)(path, (b - a)[drawn], error[drawn])
            if name in TOTALS:  # a feature that the model does not use
                self.close(path, owner, a[error == 0], b[error == 0])
        elif name in UNDRAWN or (error is not None and np.all(error == 0)) or self.is_exact(owner):
            self.close(path, owner, a, b)
        else:
            self.verdict.count["of another way without an error"] += a.size

    def totals(self, path, difference, error):
        z = difference / error
        self.verdict.count["of another way within errors"] += z.size
        self.verdict.z["importances"].extend(z.tolist())
        if np.max(np.abs(z)) > FAR:
            self.fail(path, f"{np.max(np.abs(z)):.1f} Monte-Carlo standard errors away")

    def rows(self, path, difference, error):
        """All together: the errors of single rows are estimated from few walks, so that single ratios can be large."""
        square = np.sum(np.square(difference)) / np.sum(np.square(error))
        self.verdict.count["of another way within errors"] += error.size
        self.verdict.z["results with single rows"].append(float(np.sqrt(square)))
        if square > max(2.0, 1 + FAR * np.sqrt(2 / error.size)):
            self.fail(path, f"mean square {square:.1f} times that of Monte-Carlo errors")

    def close(self, path, owner, a, b):
        self.verdict.count["of another way, exact"] += a.size
        scale = max(float(np.max(np.abs(self.old.numbers.get(_in(owner, name), 0.0)))) for name in ERRORS)
        gap = _gap(a, b, scale)
        if gap > (XGBOOST if "xgboost" in self.name.lower() else TOLERANCE):
            (self.list if RATIOS & set(path.split(SEP)) else self.fail)(path, f"off by {gap:.1e}, in another way")

    def is_exact(self, owner):
        """Whether nothing is drawn on either side, not even for single rows."""
        for numbers in (self.old.numbers, self.new.numbers):
            if not numbers.get(_in(owner, "exact"), 0.0) or np.any(numbers.get(_in(owner, "local_error"), 0.0)):
                return False
        return True

    def fail(self, path, *why):
        self.verdict.failures[self.name].append(f"{path} {' -> '.join(map(_short, why))}")

    def list(self, path, *why):
        self.verdict.listed[self.name].append(f"{path} {' -> '.join(map(_short, why))}")


def _error(numbers, path, other):
    """The Monte-Carlo standard error that a result states for a number, towards the other; None: it states none."""
    owner, own = path.rpartition(SEP)[0], numbers[path]
    if _last(path) in TOTALS:
        ends = numbers.get(_in(owner, DRAW))  # skewed where few donors were drawn
        return None if ends is None else np.where(other > own, ends[1] - own, own - ends[0]) / norm.ppf(0.975)
    if _last(path) == "local":
        stated = [numbers.get(_in(owner, name)) for name in ("local_error", "std_error")]  # the latter of effects
        return next((one for one in stated if one is not None and one.shape == own.shape), None)
    return None


def _hypot(one, other):
    return None if one is None or other is None else np.hypot(one, other)


def _ways(one):
    """The way of each object that states one, by its path."""
    found = defaultdict(dict)
    for path, value in (one.words | one.numbers).items():
        if _last(path) in WAY and np.ndim(value) == 0:  # no column of a frame
            found[path.rpartition(SEP)[0]][_last(path)] = str(value)
    return dict(found)


def _owner(path, ways):
    while path:
        path = path.rpartition(SEP)[0]
        if path in ways:
            return path
    return None


def _in_words(ways):
    return " | ".join(dict.fromkeys(", ".join(way.get(name, "-") for name in WAY) for way in ways.values()))


def _renamed(one):
    def moved(held):
        return {SEP.join(RENAMED.get(part, part) for part in path.split(SEP)): what for path, what in held.items()}

    return Record(moved(one.numbers), moved(one.labels), moved(one.words), one.raised) if RENAMED else one


def _both(old, new):
    return [path for path in old if path in new]


def _in(owner, name):
    return f"{owner}{SEP}{name}" if owner else name


def _last(path):
    return path.rpartition(SEP)[2]


def _short(thing):
    return " ".join(str(thing).split())[:100]


def _same(a, b):
    return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)


def _gap(a, b, scale=0.0):
    """The largest difference over the largest value, or over a larger scale."""
    if a.shape != b.shape or not np.array_equal(np.isfinite(a), np.isfinite(b)):
        return np.inf
    finite = np.isfinite(a)
    gap, most = np.max(np.abs(a[finite] - b[finite]), initial=0.0), max(np.max(np.abs(a[finite]), initial=0.0), scale)
    return 0.0 if gap == 0 else gap / most if most > 0 else np.inf
