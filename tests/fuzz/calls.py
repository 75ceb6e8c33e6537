"""Random calls of everything public: each ends well, or in an error that names the argument.

A call is a verb, a design, a loss, or a method or property of a result that another call has returned. Its arguments
are drawn by the names in its signature: most fit, some are odd. What a model or a loss of the user's raises passes
through as it is. No warning comes from the library, and no call takes longer than a few seconds.
"""

import copy
import importlib
import inspect
import linecache
import os
import pickle
import pkgutil
import re
import signal
import sys
import tempfile
import traceback
import warnings
from collections import Counter
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from tests.fuzz.arguments import FITS
from tests.fuzz.odd_arguments import ODD, anything
from tests.fuzz.scenes import ModelError, Scene, scene

import losslens as ll
from losslens import results
from losslens.engines.compiled import compile_all
from losslens.page.report import Report
from losslens.results.base import Displayed

LIBRARY = str(Path(ll.__file__).parent)
HERE = str(Path(__file__).parent)
OURS = {f"{HERE}/{name}.py" for name in ("scenes", "arguments", "odd_arguments")}  # models and losses of these calls
MODELS = ("sklearn", "xgboost", "lightgbm", "catboost")
ASKED = {  # functions of an estimator or a splitter that losslens calls: what they raise is theirs
    "predict", "predict_proba", "decision_function", "fit", "transform", "split", "apply", "wrapper", "__get__",
    "__call__", "get_n_splits", "wrapped", "inner_f",
    "fit_transform", "decision_path",
}  # fmt: skip
SECONDS = 10  # of CPU time, for one call
VERBS = [name for name in ll.__all__ if inspect.isfunction(getattr(ll, name))]
MAKERS = [
    "Absolute", "Derangements", "Grid", "Latin", "Paper", "Permutations", "Residual", "Sage", "Systematic", "Within",
]  # fmt: skip
LOSSES = ["huber", "pinball", "tweedie_deviance", "pointwise", "resolve"]
CHANCE = {"report": 0.15, "permuted_target_test": 0.5, "compare": 0.6}  # of slow verbs; others 1
# How results and designs are registered, and what other rooms call with positions that are checked already.
HIDDEN = {"kinds", "stored", "typed", "at_positions", "keeping"}
# Words that stand for an argument in messages.
WORDS = {
    "model": {"predict", "prediction", "predictions", "model's", "fitted", "estimator"},
    "estimator": {"predict", "model", "prediction", "predictions"},
    "learner": {"predict", "model", "estimator", "prediction", "predictions"},
    "forest": {"model", "fitted"},
    "models": {"model", "cases"},
    "X": {"table", "column", "columns", "rows"},
    "loss": {"losses", "scorer"},
    "sample_weight": {"weights", "weight"},
    "groups": {"rows"},
    "rows": {"row", "mask"},
    "rows_a": {"row", "rows", "mask"},
    "rows_b": {"row", "rows", "mask"},
    "cv": {"fold", "folds", "split", "splits"},
    "donors": {"donor", "Grid", "Latin", "Systematic", "Derangements", "sampler", "Within", "Residual", "Permutations"},
    "sampler": {"Within", "Residual"},
    "target": {"class", "classes"},
    "pair": {"names"},
    "name": {"feature", "model"},
    "against": {"model"},
    "first": {"feature", "model", "group"},
    "second": {"feature", "model", "group"},
    "key": {"feature", "group"},
    "feature": {"features"},
}
LEAKS = re.compile(
    r"has no attribute|unsupported operand|not supported between|broadcast|out of bounds|invalid literal"
    r"|truth value|unhashable type|not subscriptable|not iterable|not callable|must be real number"
    r"|setting an array element"
)


# A result that has no such thing says why: that is no matter of the arguments.
ABSENT = re.compile(
    r"all rows together|standard error needs|no feature has a standard error|nothing to draw"
    r"|has no importance, only curves|no standard error|no shares of single rows|no common grid|has no classes"
    r"|is not defined for these rows|no Shapley shares were computed|curves need a single feature"
    r"|no difference of groups|no error of groups|every feature has its own curves"
    r"|no feature has an importance to rank by"
)
# Warnings of the library's own.
STATED = re.compile("X has the target: its column|The effective number|the model answers the same rows differently")
FRAME = re.compile(r'File "(.+?)", line (\d+), in (\S+)')
SIGNATURE = re.compile(r"\w+(\(\)|>\(\)) (takes|missing|got an unexpected)")  # of a function of the user's


class TookTooLongError(BaseException):
    """No `except Exception` swallows it."""


@dataclass
class Finding:
    """A call that ended as none may."""

    seed: int
    case: int
    call: str
    problem: str
    where: str = ""

    def __str__(self):
        again = f"python -m tests.fuzz calls --seed {self.seed} --only {self.case}"
        return f"{self.call}\n    {self.problem}\n    {self.where}\n    again: {again}"


@dataclass
class Tally:
    """What a run has seen."""

    calls: int = 0
    fine: int = 0
    refused: int = 0
    of_model: int = 0
    names: Counter = field(default_factory=Counter)
    findings: list[Finding] = field(default_factory=list)

    def __str__(self):
        return (
            f"{self.calls:,} calls of {len(self.names)} names: {self.fine:,} fine, {self.refused:,} refused with an "
            f"error that names the argument, {self.of_model:,} with an error of the model's own, "
            f"{len(self.findings)} findings"
        )


@dataclass
class Fuzzer:
    """One case: a scene, a verb, and calls of what it returned."""

    seed: int
    case: int
    tally: Tally
    trace: bool = False
    after: int = 6  # calls of methods for each call of a verb

    def run(self):
        rng = np.random.default_rng([self.seed, self.case])
        s = scene(rng)
        kind = rng.random()
        if kind < 0.05:
            name = s.pick(MAKERS + LOSSES)
            made = getattr(ll, name, None) or getattr(ll.losses, name)
            self.call(s, f"{name}", made, self.drawn(s, made, {}, odd=0.6))
            return
        while True:
            name = s.pick(VERBS)
            if rng.random() < CHANCE.get(name, 1.0):
                break
        verb = getattr(ll, name)
        result = self.call(s, name, verb, self.drawn(s, verb, self.needed(s, name), odd=s.pick([0.0, 0.06, 0.15])))
        for _ in range(self.after):
            if result is None:
                break
            result = self.poke(s, name, result)

    def needed(self, s: Scene, name):
        """Arguments that belong to those of another verb."""
        if name == "plan":
            verb = s.pick([ll.feature_importance, ll.feature_effect, ll.shapley_importance])
            more = self.drawn(s, verb, {}, odd=0.05)
            return {"verb": verb} | {key: value for key, value in more.items() if key not in ("model", "X", "y")}
        if name == "pair_interactions":
            more = self.drawn(s, ll.feature_importance, {}, odd=0.05)
            return {key: more[key] for key in more if key not in ("model", "X", "y", "loss", "features")}
        return {}

    def drawn(self, s: Scene, called, given, odd):
        """Arguments by the names in the signature."""
        chosen = {}
        for name, parameter in inspect.signature(called).parameters.items():
            if name in given or parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL):
                continue
            wanted = parameter.default is parameter.empty or name in ("loss", "progress", "random_state")
            if s.rng.random() < odd:
                special = ODD.get(name)
                chosen[name] = special(s) if special and s.rng.random() < 0.7 else anything(s, name)
            elif wanted or s.rng.random() < 0.25:
                chosen[name] = FITS[name](s) if name in FITS else anything(s, name)
                if name == "ax" and callable(chosen[name]):
                    chosen[name] = chosen[name]()
        if called is ll.permuted_target_test and isinstance(chosen.setdefault("permutations", 6), int):
            chosen["permutations"] = min(chosen["permutations"], 6)  # each fits every fold again
        return given | chosen

    # Results.

    def poke(self, s: Scene, name, result):
        """Call a method or read a property; return what to go on with."""
        kind = type(result)
        if isinstance(result, dict) and result:
            return s.pick(list(result.values()))
        if kind.__name__ not in results.__all__ and not isinstance(result, Displayed):
            return None
        s.result = result
        special = s.rng.random()
        title = f"{name} -> {kind.__name__}"
        if special < 0.25:
            what, do = s.pick(SPECIAL)
            self.call(s, f"{title}: {what}", do, {"result": result}, positional=True)
            return result
        member = s.pick(public(result))
        if not isinstance(inspect.getattr_static(kind, member, None), FunctionType):
            found = self.call(s, f"{title}.{member}", getattr, {"object": result, "name": member}, positional=True)
        else:
            method = getattr(result, member)
            found = self.call(s, f"{title}.{member}", method, self.drawn(s, method, {}, odd=s.pick([0.0, 0.0, 0.3])))
        close_figures()
        other = type(found).__module__.startswith("losslens") or (isinstance(found, dict) and found)
        return found if other and s.rng.random() < 0.5 else result

    # One call.

    def call(self, s: Scene, title, called, chosen, positional=False):
        self.tally.calls += 1
        self.tally.names[title.rpartition("-> ")[2]] += 1
        shown = f"{title}({', '.join(f'{key}={_short(value)}' for key, value in chosen.items())})"
        if self.trace:
            print(f"[{self.case}] {shown}", flush=True)
        heard: list[Any] = []
        try:
            with bounded(), listening(heard):
                found = called(*chosen.values()) if positional else called(**chosen)
        except TookTooLongError:
            self.found(shown, f"took longer than {SECONDS} s", "".join(traceback.format_tb(sys.exc_info()[2])[-3:]))
            return None
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            self.judge(s, shown, title, called, chosen, error)
            found = None
        else:
            self.tally.fine += 1
        for message, where in heard:
            self.found(shown, f"warned: {message}", where)
        return found

    def judge(self, s: Scene, shown, title, called, chosen, error):
        frames, text = _origin(error), str(error)
        at = [k for k, frame in enumerate(frames) if frame.filename.startswith(LIBRARY)]
        after = frames[at[-1] + 1 :] if at else frames[1:]
        if isinstance(error, ModelError) or SIGNATURE.search(str(error)) or (after and _is_models(after[0])):
            self.tally.of_model += 1
            return
        last = frames[-1]
        if last.name == "call_read_only":  # a loss of the user's that is written in C
            self.tally.of_model += 1
            return
        where = f"{last.filename}:{last.lineno} {last.line}"
        problem = None
        if not at and isinstance(error, TypeError) and re.search(r"argument", text):
            pass  # Python's own, of the signature
        elif isinstance(error, ImportError) and "pip install" in text:
            pass
        elif type(error) not in (ValueError, TypeError, KeyError) and not isinstance(error, OSError):
            problem = "internal error"
        elif isinstance(error, OSError):
            pass
        elif not last.filename.startswith(LIBRARY) or not linecache.getline(
            last.filename, last.lineno
        ).strip().startswith("raise"):
            problem = "not raised by the library"
        elif LEAKS.search(text):
            problem = "says how, not what"
        elif not ABSENT.search(text) and not self.names(title, called, chosen, text):
            problem = "names no argument"
        if problem:
            kept = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in frames[-5:]]
            self.found(shown, f"{problem}: {type(error).__name__}: {text[:400]}", f"{where}\n    {' > '.join(kept)}")
        else:
            self.tally.refused += 1

    def names(self, title, called, chosen, text):
        if called is getattr or "result" in chosen:
            return True  # a property has no argument: it says why there is no value
        words = set(re.findall(r"\w+", text))
        try:
            parameters = set(inspect.signature(called).parameters)
        except ValueError:
            parameters = set()
        if "options" in parameters:
            parameters |= set(inspect.signature(chosen.get("verb", ll.feature_importance)).parameters)
        known = {*parameters, *chosen, *re.findall(r"\w+", title)}
        known |= {word for name in known for word in WORDS.get(name, ())}
        known |= {value.name for value in chosen.values() if isinstance(value, ll.losses.Loss)}
        return bool(known & words) or any(
            str(value)[:60] in text or repr(value)[:60] in text for value in chosen.values()
        )

    def found(self, shown, problem, where=""):
        self.tally.findings.append(Finding(self.seed, self.case, shown, problem, where))


def public(result):
    made = {
        name
        for name in dir(result)
        if isinstance(inspect.getattr_static(type(result), name, None), (classmethod, staticmethod))
    }
    shown = [name for name in dir(result) if not name.startswith("_") or name in ("_repr_html_", "__getitem__")]
    return [name for name in shown if name not in HIDDEN | made]


def _saved(result):
    result.save("round trip")
    return repr(ll.load("round trip"))


def _pickled(result):
    import cloudpickle  # models and losses are local functions

    return repr(pickle.loads(cloudpickle.dumps(result)))


SPECIAL = [
    ("repr", repr),
    ("str", str),
    ("html", lambda result: result._repr_html_() if hasattr(result, "_repr_html_") else None),
    ("to_frame", lambda result: result.to_frame() if hasattr(result, "to_frame") else None),
    ("dir", dir),
    ("==", lambda result: result == result),
    ("!= 3", lambda result: result == 3),
    ("bool", bool),
    ("iter", lambda result: list(result) if isinstance(result, Mapping) else None),
    ("in", lambda result: "x0" in result if isinstance(result, Mapping) else None),
    ("copy", lambda result: repr(copy.copy(result))),
    ("deepcopy", lambda result: repr(copy.deepcopy(result))),
    ("pickle", _pickled),
    ("plot", lambda result: result.plot() if hasattr(result, "plot") else None),
    (
        "save and load",
        lambda result: _saved(result) if hasattr(result, "save") and not isinstance(result, Report) else None,
    ),
]


def _origin(error):
    """Where an error was raised first: it may have been raised again with the name of its fold or model in front."""
    while (cause := error.__cause__) is not None and not _is_text(cause) and str(cause)[:40] in str(error):
        if type(cause) is not type(error) and not isinstance(error, RuntimeError):
            break  # raised on purpose, with another type
        if not any(frame.filename.startswith(LIBRARY) for frame in traceback.extract_tb(cause.__traceback__)):
            break  # within the model
        error = cause
    frames = traceback.extract_tb(error.__traceback__)
    if not _is_text(error.__cause__):
        return frames
    blocks = [
        [traceback.FrameSummary(name, int(line), function) for name, line, function in FRAME.findall(block)]
        for block in re.split(r"(?:The above|During handling of the above) exception", str(error.__cause__))
    ]
    return next((block for block in blocks if any(frame.filename.startswith(LIBRARY) for frame in block)), frames)


def _is_text(cause):
    """Whether this is the traceback of a thread, which joblib gives as text."""
    return type(cause).__name__ == "_RemoteTraceback"


def _is_models(frame):
    if frame.filename.startswith(HERE):
        return True
    return any(f"/{name}/" in frame.filename for name in MODELS) and frame.name in ASKED


def _short(value):
    if type(value).__module__.startswith("losslens."):
        return type(value).__name__
    text = repr(value) if not callable(value) else getattr(value, "__name__", repr(value))
    if text == "<lambda>":
        text = (
            inspect.getsource(value).strip()[:40]
            if inspect.getsourcefile(value) is None
            else f"<lambda at {value.__code__.co_firstlineno}>"
        )
    text = " ".join(text.split())
    return f"{type(value).__name__} {text[:60]}..." if len(text) > 70 else text


def close_figures():
    if "matplotlib.pyplot" in sys.modules:
        sys.modules["matplotlib.pyplot"].close("all")


@contextmanager
def bounded():
    """CPU time, so that a busy machine is no finding; and a longer bound for what waits forever."""

    def stop(*_):
        raise TookTooLongError

    before = [(what, signal.signal(what, stop)) for what in (signal.SIGPROF, signal.SIGALRM)]
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    signal.setitimer(signal.ITIMER_REAL, 60 * SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.setitimer(signal.ITIMER_REAL, 0)
        for what, handler in before:
            signal.signal(what, handler)


@contextmanager
def listening(heard):
    """Warnings of the library, by whoever is nearest on the stack: itself, or a model that it asked."""

    def show(message, category, filename, lineno, file=None, line=None):
        frame = sys._getframe(1)
        while frame is not None:
            name = frame.f_code.co_filename
            if name.startswith(LIBRARY):
                if STATED.match(str(message)):
                    return
                heard.append((f"{category.__name__}: {str(message)[:300]}", f"{name}:{frame.f_lineno}"))
                return
            if any(f"/{library}/" in name for library in MODELS) or name in OURS:
                return
            frame = frame.f_back

    with warnings.catch_warnings():
        warnings.simplefilter("always")
        warnings.showwarning = show
        yield


def run(seed, cases=None, calls=None, only=None, trace=False):
    """Cases until there are so many cases or calls; in an empty folder, since some calls write files."""
    import matplotlib as mpl

    mpl.use("Agg")
    for module in pkgutil.walk_packages(ll.__path__, "losslens."):
        if ".gpu" not in module.name and not module.name.endswith("__main__"):
            importlib.import_module(module.name)
    for _ in compile_all():  # now, which is no call's time
        pass
    tally, home = Tally(), Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            case = 0
            while (cases is None or case < cases) and (calls is None or tally.calls < calls):
                if only is None or case == only:
                    Fuzzer(seed, case, tally, trace).run()
                case += 1
                if only is not None and case > only:
                    break
        finally:
            os.chdir(home)
            close_figures()
    return tally
