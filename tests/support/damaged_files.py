"""Saved results of every kind, damaged at random: each loads and works, or is refused in one sentence."""

import contextlib
import inspect
import io
import json
import tempfile
import time
import traceback
import warnings
import zipfile
from copy import deepcopy
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import losslens as ll

OLD = Path(__file__).parents[1] / "results" / "saved"
N = 24
HOME = Path(ll.__file__).parent


@cache
def saved():
    """Files of every kind of result, by name."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"a": rng.normal(size=N), "b": rng.integers(0, 4, N), "c": rng.choice(list("xyz"), N)})
    y = X["a"] * 2 + X["b"] + 0.1 * rng.normal(size=N)
    numbers, weight, groups = X[["a", "b"]], rng.uniform(0.5, 2, N), np.arange(N) // 2

    def predict(X):
        return X["a"].to_numpy() * 2 + X["b"].to_numpy()

    explain = {"loss": "squared_error", "random_state": 0}
    imp = ll.feature_importance(predict, X, y, **explain)
    shared = ll.shapley_importance(predict, X, y, **explain)
    linear, classes = LinearRegression().fit(numbers, y), LogisticRegression().fit(numbers, y > 1)
    drawn = ll.feature_importance(predict, X, y, donors=ll.Within(), **explain)
    results = {
        "all": imp,
        "weights": ll.feature_importance(predict, X, y, sample_weight=weight, groups=groups, **explain),
        "latin": ll.feature_importance(predict, X, y, donors=ll.Latin(3), **explain),
        "bins": ll.feature_importance(predict, X, y, donors=ll.Systematic(4), features=["a"], **explain),
        "others": ll.feature_importance(predict, X, y, donors=ll.Derangements(), sample_weight=weight, **explain),
        "grid": ll.feature_importance(predict, X, y, donors=ll.Grid(5), **explain),
        "pair": ll.feature_importance(predict, X, y, features=["a", ("a", "b")], **explain),
        "group": ll.feature_importance(predict, X, y, features={"both": ["a", "c"]}, **explain),
        "given": imp.given(np.arange(5)),
        "drawn": drawn,
        "classes": ll.feature_importance(classes, numbers, y > 1, loss="log_loss", random_state=0),
        "labels": ll.feature_importance(classes, numbers, y > 1, loss="zero_one", random_state=0),
        "custom": ll.feature_importance(predict, X, y, loss=lambda y, p: abs(y - p), random_state=0),
        "scores": ll.feature_importance(linear, numbers, y, loss=get_scorer("r2"), random_state=0),
        "columns": ll.feature_importance(linear, numbers, y, loss="neg_median_absolute_error", random_state=0),
        "labelled": ll.feature_importance(classes, numbers, y > 1, loss="rand_score", random_state=0),
        "f1": ll.feature_importance(classes, numbers, y > 1, loss="f1", donors=ll.Latin(3), random_state=0),
        "auc": ll.feature_importance(classes, numbers, y > 1, loss="roc_auc", random_state=0),
        "effects": ll.feature_effect(predict, X),
        "class effects": ll.feature_effect(classes, numbers, target=True),
        "shapley": shared,
        "walks": ll.shapley_importance(predict, X, y, method="walk", budget=600, **explain),
        "own": ll.shapley_importance(predict, X, y, donors=ll.Latin(3), **explain),
        "gap": shared.gap(np.arange(N) < 9),
        "interactions": shared.interactions,
        "pairs": ll.pair_interactions(predict, X, y, loss="squared_error"),
        "shapley effect": ll.shapley_effect(predict, X, [0, 1]),
        "refits": ll.feature_importance_cv(LinearRegression(), numbers, y, cv=3, random_state=0, variance="jackknife"),
        "permuted": ll.permuted_target_test(LinearRegression(), numbers, y, cv=2, permutations=5, random_state=0),
        "left out": ll.leave_one_covariate_out(LinearRegression(), numbers, y, cv=2, random_state=0),
        "compared": ll.compare({"one": predict, "two": lambda X: X["a"] * 1.5}, X, y, shapley=True, **explain),
        "moved": ll.compare(predict, {"a": X[:12], "b": X[12:]}, {"a": y[:12], "b": y[12:]}, shapley=False, **explain),
        "regions": imp.regions(X, target="importance", random_state=0, permutations=19),
        "far": imp.extrapolation,
        "influence": imp["a"].row_influence,
        "over": imp.over(np.arange(len(imp["a"].at))),
        "observations": shared.rank_rows(),
        "clusters": shared.clusters(X, random_state=0),
    }
    files = {path.stem: path.read_bytes() for path in sorted(OLD.glob("*.losslens"))}
    with tempfile.TemporaryDirectory() as folder:
        for name, result in results.items():
            result.save(Path(folder) / "r")
            files[name] = (Path(folder) / "r").read_bytes()
    return files


# -- damage -----------------------------------------------------------------------------------------------------------


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts, kind=zipfile.ZIP_DEFLATED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", kind) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return file.getvalue()


def flip(content, rng):
    """Some bits of the file."""
    content = bytearray(content)
    for place in rng.integers(0, len(content), int(rng.integers(1, 20))):
        content[place] ^= 1 << int(rng.integers(8))
    return bytes(content)


def cut(content, rng):
    """A part of the file is missing, at the end or within."""
    first, last = sorted(rng.integers(0, len(content), 2).tolist())
    return content[:first] if rng.random() < 0.5 else content[:first] + content[last:]


ODD = [
    None, True, False, 0, 1, -1, 2, 7, 10**15, 10**300, -(10**30), 0.5, -1.5, 1e300, float("nan"), float("inf"), "",
    "a", "all", "x" * 1000, "\ud800", [], [1, "a"], {}, {"array": "a0"}, {"array": "a1"}, {"array": 3}, {"same": 0},
    {"same": 99}, {"tuple": []}, {"dict": []}, {"tuple": ["a", 1]}, {"dict": [["a", 1]]}, {"text": 3},
    {"objects": [1], "shape": [2]}, {"objects": [], "shape": [0, 10**15]}, {"date": "2020-13-45"}, {"datetime": 5},
    {"object": "Importances", "number": 0, "fields": {"features": {"dict": []}, "n_predictions": 0}},
    {"object": "All", "number": 0, "fields": {}}, {"object": "Latin", "number": 0, "fields": {"m": 10**15}},
    {"object": "Result", "number": 0, "fields": {}}, {"object": "Design", "number": 0, "fields": {}},
    {"loss": {"name": "squared_error", "reads": "values", "title": "t", "custom": False, "parameters": {}}},
    {"loss": {"name": "log_loss", "reads": "probabilities", "title": "t", "custom": False, "parameters": {}}},
    {"loss": {"name": "mine", "reads": "nothing", "title": 3, "custom": True, "parameters": {}}},
]  # fmt: skip


def places(thing):
    """Every entry of a description, as its container and key."""
    entries = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in list(entries):
        yield thing, key
        yield from places(value)


def edit(content, rng):
    """Entries of the description: other values, swapped ones, missing ones, other names."""
    parts = members(content)
    description = json.loads(parts["result.json"])
    for _ in range(int(rng.integers(1, 3))):
        every = list(places(description))
        holder, key = every[int(rng.integers(len(every)))]
        how = rng.random()
        if how < 0.45:
            holder[key] = deepcopy(ODD[int(rng.integers(len(ODD)))])
        elif how < 0.65:
            other, place = every[int(rng.integers(len(every)))]
            holder[key] = deepcopy(other[place])
        elif how < 0.75:
            del holder[key]
        elif how < 0.9 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * int(rng.integers(-3, 100)) + int(rng.integers(-2, 3))
        elif isinstance(holder, list):
            holder.append(deepcopy(holder[key]))
        elif isinstance(holder[key], str):
            holder[key] += "x"
    return packed(parts | {"result.json": json.dumps(description)})


def arrays_of(parts):
    return [name for name in parts if name.endswith(".npy")]


def written(array, **header):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    if header:
        said = np.lib.format.header_data_from_array_1_0(array) | header
        start = io.BytesIO()
        np.lib.format.write_array_header_1_0(start, said)
        return start.getvalue() + array.tobytes()
    return file.getvalue()


class Trap:
    """A pickle that says when it is read."""

    def __reduce__(self):
        return (print, ("this must not run",))


TYPES = ("f4", "i8", "?", "U5", "c16", "f8", ">f8", "u1")


def alter(content, rng):
    """Arrays: swapped, of other shapes and types, with odd values, with headers that lie."""
    parts = members(content)
    names = arrays_of(parts)
    if not names:
        return flip(content, rng)
    name, other = (names[int(k)] for k in rng.integers(0, len(names), 2))
    array = np.lib.format.read_array(io.BytesIO(parts[name]))
    flat = array.copy().reshape(-1)
    odd = [0, -1, 1, 10**6, -(10**6), 2**31 - 1]
    if flat.dtype.kind == "f":
        odd += [np.nan, np.inf, -np.inf, 1e100, 1e-300]
    if len(flat) and flat.dtype.kind in "iuf":
        spots = rng.integers(0, len(flat), max(1, int(rng.integers(0, len(flat)))))
        flat[spots] = np.array(odd[int(rng.integers(len(odd)))]).astype(flat.dtype)
    choices = [
        lambda: parts | {name: parts[other], other: parts[name]},
        lambda: parts | {name: written(flat.reshape(array.shape))},
        lambda: parts | {name: written(array[: len(array) // 2])} if array.ndim else parts,
        lambda: parts | {name: written(np.concatenate([array, array]))} if array.ndim else parts,
        lambda: parts | {name: written(array[..., None])},
        lambda: parts | {name: written(array.T)},
        lambda: parts | {name: written(array.ravel())},
        lambda: parts | {name: written(array.astype(TYPES[int(rng.integers(len(TYPES)))]))},
        lambda: parts | {name: written(array, shape=(10**15,))},
        lambda: parts | {name: written(array, shape=(10**15, 0))},
        lambda: parts | {name: written(array, shape=(-1,))},
        lambda: parts | {name: written(array, descr="<U0", shape=(10**15,))},
        lambda: parts | {name: written(array, descr="|O")},
        lambda: parts | {name: written(np.array([Trap()], object))},
        lambda: parts | {name: written(np.zeros(3, [("a", "f8")]))},
        lambda: parts | {name: parts[name] + bytes(100)},
        lambda: {key: part for key, part in parts.items() if key != name},
        lambda: parts | {"unread.npy": b"nonsense", "more.txt": bytes(1000)},
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return packed(choices[int(rng.integers(len(choices)))]())


def resize(content, rng):
    """Lies about sizes in the archive's own directory, and contents that inflate."""
    if rng.random() < 0.5:
        parts = members(content)
        name = list(parts)[int(rng.integers(len(parts)))]
        bomb = bytes(1 << 22) if name.endswith(".npy") else b"[" + b"0," * (1 << 20) + b"0]"
        return packed(parts | {name: bomb}, zipfile.ZIP_DEFLATED if rng.random() < 0.8 else zipfile.ZIP_BZIP2)
    content = bytearray(content)
    start = content.find(b"PK\x01\x02")
    for _ in range(int(rng.integers(0, 6))):
        start = max(start, content.find(b"PK\x01\x02", start + 1))
    place = start + int(rng.choice([10, 20, 24, 28, 42]))  # method, sizes, length of the name, offset
    content[place : place + 4] = int(rng.integers(0, 1 << 32)).to_bytes(4, "little")
    return bytes(content)


DAMAGES = (flip, cut, edit, edit, edit, alter, alter, alter, resize)


# -- use --------------------------------------------------------------------------------------------------------------


def use(thing, depth=0):
    """Read every property and call every method that draws nothing; only refusals of our own are accepted."""
    repr(thing)
    for name in dir(type(thing)):
        static = inspect.getattr_static(type(thing), name)
        if name.startswith("_") or name in UNUSED or isinstance(static, (staticmethod, classmethod)):
            continue
        try:
            value = getattr(thing, name)
            if inspect.ismethod(value):
                call(thing, name, value)
        except (ValueError, KeyError, NotImplementedError) as error:
            if not is_refusal(error):
                raise
    if isinstance(getattr(thing, "features", None), dict) and depth == 0:
        for one in thing.features.values():
            use(one, 1)


UNUSED = ("save", "plot", "plot_shares", "plot_ranking", "items", "values", "keys", "get")
ARGUMENTS = {
    "given": lambda thing: (np.array([0]),),
    "subset": lambda thing: (np.arange(3),),
    "drop": lambda thing: (np.array([1]),),
    "with_loss": lambda thing: ("absolute_error",),
    "curve": lambda thing: (next(iter(thing.features)),),
    "influence": lambda thing: (thing.features[0],),
    "rows": lambda thing: (0,),
    "of": lambda thing: (next(iter(thing.features)),),
    "error_difference": lambda thing: thing.names[:2],
    "effect_of": lambda thing: (np.nan if thing.sample.classes is None else thing.sample.classes[0],),
}


def call(thing, name, method):
    if name == "difference":
        models = getattr(thing, "names", None)
        method(*[*thing.features, *thing.features][:2] if models is None else (next(iter(thing.features)), *models[:2]))
        return
    needed = [one for one in inspect.signature(method).parameters.values() if one.default is one.empty]
    if name in ARGUMENTS or not needed:
        method(*(ARGUMENTS[name](thing) if name in ARGUMENTS else ()))


def is_refusal(error):
    """Whether our own code raised the error on purpose, as undamaged results do where a number does not exist."""
    # Of numbers near the largest that there are; of names that are no text, which frames of an undamaged result refuse.
    if isinstance(error, (np.linalg.LinAlgError, UnicodeEncodeError)):
        return True
    last = traceback.extract_tb(error.__traceback__)[-1]
    return HOME in Path(last.filename).parents and last.line.startswith("raise ")


def trial(path, content):
    """Load and use a file; the reason as text if it failed in another way than it may, and whether it loaded."""
    path.write_bytes(content)
    started = time.process_time()  # other programs may be running
    said = io.StringIO()
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.redirect_stdout(said):
            warnings.simplefilter("ignore")
            try:
                result = ll.load(path)
            except (ValueError, OSError) as error:
                text = str(error)
                if "\n" in text or len(text) > 500 + len(str(path)) or type(error) not in (ValueError, OSError):
                    return f"not one sentence: {text!r}", False
                if not text.startswith(str(path)) and not isinstance(error, OSError):
                    return "damage was taken for an error of the reader:\n" + traceback.format_exc(limit=-6), False
                return None, False
            use(result)
    except Exception:  # noqa: BLE001
        return traceback.format_exc(limit=-6), True
    finally:
        took = time.process_time() - started
    if "must not run" in said.getvalue():
        return "a pickle ran", True
    return (f"{took:.1f} s" if took > 20 else None), True


def run(count, seed, names=None):
    """Try `count` damaged files; failures as (number, file, damage, reason), and how many files loaded."""
    files = {name: content for name, content in saved().items() if names is None or name in names}
    failures, loaded = [], 0
    with tempfile.TemporaryDirectory() as folder:
        for k in range(count):
            rng = np.random.default_rng([seed, k])
            name = list(files)[int(rng.integers(len(files)))]
            damage = DAMAGES[int(rng.integers(len(DAMAGES)))]
            reason, was_loaded = trial(Path(folder) / "r", damage(files[name], rng))
            loaded += was_loaded
            if reason is not None:
                failures.append((k, name, damage.__name__, reason))
    return failures, loaded
