"""Saved results of every kind, damaged at random: each is refused in one sentence, or says what it said."""

import io
import json
import tempfile
import traceback
import zipfile
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.metrics import get_scorer

import losslens as ll

OLD = Path(__file__).parents[1] / "results" / "saved"
N = 24


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
        "good": ll.good_models({"one": predict, "two": lambda X: X["a"] * 1.5}, X, y, **explain),
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


def places(thing):
    """Every entry of a description, as its container and key."""
    entries = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in list(entries):
        yield thing, key
        yield from places(value)


def edit(content, rng):
    """An entry of the description: another one, or none."""
    parts = members(content)
    description = json.loads(parts["result.json"])
    every = list(places(description["result"]))
    (holder, key), (other, place) = (every[int(k)] for k in rng.integers(0, len(every), 2))
    if rng.random() < 0.2:
        del holder[key]
    else:
        holder[key] = json.loads(json.dumps(other[place]))
    return packed(parts | {"result.json": json.dumps(description)})


def written(array):
    file = io.BytesIO()
    np.lib.format.write_array(file, array, allow_pickle=True)
    return file.getvalue()


class Trap:
    """A pickle that says when it is read."""

    def __reduce__(self):
        return (print, ("this must not run",))


def alter(content, rng):
    """Members: swapped, of other values and types, too many, too few."""
    parts = members(content)
    name, other = (list(parts)[int(k)] for k in rng.integers(0, len(parts), 2))
    choices = [
        parts | {name: parts[other], other: parts[name]},
        parts | {name: parts[name] + b" "},
        parts | {name: parts[name][:-1] + bytes([parts[name][-1] ^ 1])},
        parts | {name: written(np.array([Trap()], object))},
        parts | {"unread.npy": b"nonsense"},
        {key: part for key, part in parts.items() if key != name},
    ]
    return packed(choices[int(rng.integers(len(choices)))])


def resize(content, rng):
    """Lies about sizes in the archive's own directory, and contents that inflate."""
    if rng.random() < 0.5:
        parts = members(content)
        name = list(parts)[int(rng.integers(len(parts)))]
        return packed(parts | {name: bytes(1 << 22)}, zipfile.ZIP_DEFLATED if rng.random() < 0.8 else zipfile.ZIP_BZIP2)
    content = bytearray(content)
    start = content.find(b"PK\x01\x02")
    for _ in range(int(rng.integers(0, 6))):
        start = max(start, content.find(b"PK\x01\x02", start + 1))
    place = start + int(rng.choice([10, 20, 24, 28, 42]))  # method, sizes, length of the name, offset
    content[place : place + 4] = int(rng.integers(0, 1 << 32)).to_bytes(4, "little")
    return bytes(content)


DAMAGES = (flip, cut, edit, edit, alter, alter, resize)


def trial(path, content, said=None):
    """Load a file; the reason as text if it failed in another way than it may, and whether it loaded.

    said: the text of the undamaged result.
    """
    path.write_bytes(content)
    try:
        result = ll.load(path)
    except ValueError as error:
        text = str(error)
        fits = "\n" not in text and len(text) < 500 + len(str(path)) and text.startswith(str(path))
        return None if fits else f"not one sentence: {text!r}", False
    except Exception:  # noqa: BLE001
        return traceback.format_exc(limit=-6), False
    return None if said in (None, repr(result)) else "it says something else", True


def run(count, seed, names=None):
    """Try `count` damaged files; failures as (number, file, damage, reason), and how many files loaded."""
    files = {name: content for name, content in saved().items() if names is None or name in names}
    failures, loaded, said = [], 0, {}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "r"
        for k in range(count):
            rng = np.random.default_rng([seed, k])
            name = list(files)[int(rng.integers(len(files)))]
            damage = DAMAGES[int(rng.integers(len(DAMAGES) if "digest.json" in members(files[name]) else 2))]
            if name not in said:
                path.write_bytes(files[name])
                said[name] = repr(ll.load(path))
            reason, was_loaded = trial(path, damage(files[name], rng), said[name])
            loaded += was_loaded
            if reason is not None:
                failures.append((k, name, damage.__name__, reason))
    return failures, loaded
