"""Mutants: what can be changed in a module, and a seeded sample of it."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from tests.mutants.reach import is_compiled

# Rooms that compute. Verbs and the command line check and call; what a plot computes is in few of its files; estimates
# of time (rehearsal.py) are right within a factor, not to the digit; GPU code needs a GPU.
ROOMS: dict[str, tuple[str, ...]] = {
    "root": ("losses/*.py", "models.py", "game_theory.py", "text.py"),
    "tables": ("tables/*.py",),
    "donors": ("donors/*.py",),
    "cells": ("cells/*.py",),
    "uncertainty": ("uncertainty/*.py",),
    "results": ("results/*.py",),
    "plots": ("plots/feature_data.py",),
    "engines": ("engines/*.py", "engines/readers/*.py"),
    "trees": ("engines/trees/*.py",),
    "passes": ("passes/*.py",),
    "parts": ("passes/parts/*.py",),
    "shapley": ("shapley/*.py",),
    "walks": tuple(
        f"shapley/{name}.py" for name in ("walks", "loss_walks", "mean_walks", "effect_walks", "control_variates")
    ),
    "refits": ("refits/*.py",),
    "rows": ("rows/*.py",),
    "page": ("page/cells.py", "page/packing.py", "page/summary.py"),
    "sentences": ("page/findings.py", "page/words.py"),
}
NOT_SAMPLED = ("rehearsal.py", "__init__.py")
LEAST = 10  # mutants a room, however small it is

_BINARY = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_EDGE = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
_NEGATED = {
    ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is,
}  # fmt: skip
_RENAMED = {
    "min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "any": "all", "all": "any", "sum": "mean",
    "argmin": "argmax", "argmax": "argmin", "floor": "ceil", "ceil": "floor", "cumsum": "cumprod", "zeros": "ones",
    "ones": "zeros", "zeros_like": "ones_like", "union": "intersection", "log": "log1p", "exp": "expm1",
}  # fmt: skip
_DROPPED = {"sqrt", "square", "abs", "sorted", "log1p", "unique", "reversed"}  # f(x) -> x
_NOT_SWAPPED = {"isinstance", "getattr", "hasattr", "setattr", "cast", "np.where", "issubclass"}
_SPEED = {"strict", "stacklevel", "copy", "dtype", "slots", "frozen", "eq", "kw_only", "repr", "maxsize", "kind"}
Place = tuple[ast.AST, str, int | None]  # parent, field, position in a list


@dataclass(frozen=True)
class Mutant:
    """One change of a module: the statement before and after it, and the module's text with it."""

    room: str
    path: str  # under src/losslens
    line: int
    before: str
    after: str
    function: str  # qualified name of the outermost function that it is in; "" for a constant
    constant: str  # name of the module's constant that it changes
    compiled: str  # name of the compiled function that it is in; "" for Python
    text: str  # of the whole module

    @property
    def module(self) -> str:
        """Its name."""
        return "losslens." + self.path.removesuffix(".py").replace("/", ".")

    @property
    def key(self) -> tuple[str, str, str]:
        """What a mutant is known by, however lines move."""
        return self.path, self.before, self.after


def sample(source: Path, count: int, seed: int, only: list[str] | None = None) -> list[Mutant]:
    """`count` mutants of the package at `source`: shared out to rooms by size, then drawn; the same for a seed."""
    rng, sites, taken = random.Random(seed), {}, set()
    for room in sorted(ROOMS, key=lambda name: (len(ROOMS[name]) == 1, name)):  # files named one by one come first
        found = []
        for path in sorted({path for pattern in ROOMS[room] for path in source.glob(pattern)} - taken):
            taken.add(path)
            if path.name in NOT_SAMPLED:
                continue
            found += [(path, number) for number in range(len(list(_sites(ast.parse(path.read_text())))))]
        sites[room] = found
    rooms = [room for room in ROOMS if (not only or room in only) and sites[room]]
    total = sum(len(sites[room]) for room in rooms)
    least = min(LEAST, count // len(rooms))
    spare = count - least * len(rooms)
    drawn = []
    for room in rooms:
        size = min(len(sites[room]), least + round(spare * len(sites[room]) / total))
        for path, number in sorted(rng.sample(sites[room], size)):
            drawn.append(_mutant(room, path, source, number, rng))
    return drawn


def _mutant(room: str, path: Path, source: Path, number: int, rng: random.Random) -> Mutant:
    tree = ast.parse(path.read_text())
    site = list(_sites(tree))[number]
    before, new = _head(site.statement), rng.choice(site.choices)()
    after, text = _head(new or site.statement), ast.unparse(ast.fix_missing_locations(tree))
    where = str(path.relative_to(source))
    return Mutant(room, where, site.line, before, after, site.function, site.constant, site.compiled, text)


def _head(statement: ast.stmt) -> str:
    """A statement without the block below it."""
    bare = copy.copy(statement)
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        if getattr(bare, field, None):
            setattr(bare, field, [] if field != "body" else [ast.Expr(ast.Constant(...))])
    return ast.unparse(ast.fix_missing_locations(bare))


@dataclass(frozen=True, eq=False)
class _Site:
    """A place that can be changed: where it is, and what can be done there."""

    statement: ast.stmt
    line: int
    function: str
    constant: str
    compiled: str
    choices: list[Callable[[], ast.stmt | None]]  # change the tree; return the new statement where it is replaced


def _sites(tree: ast.Module) -> Iterator[_Site]:
    """Inside functions, and in constants of the module, unless they are compiled into functions."""
    has_compiled = any(is_compiled(node) for node in ast.walk(tree))

    def inside(node: ast.AST, place: Place, site: _Site) -> Iterator[_Site]:
        if _is_text(node):
            return
        if isinstance(node, ast.stmt):
            site = replace(site, statement=node, line=node.lineno)
        if isinstance(node, ast.FunctionDef) and not site.function:
            name = f"{site.compiled}{node.name}"  # so far the names of the classes around it
            site = replace(site, function=name, compiled=node.name if is_compiled(node) else "")
        elif isinstance(node, ast.ClassDef) and not site.function:
            site = replace(site, compiled=f"{site.compiled}{node.name}.")
        elif isinstance(place[0], ast.Module):
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names = [each.id for each in targets if isinstance(each, ast.Name) and each.id.isupper()]
            site = replace(site, constant=names[0] if names and not has_compiled else "")
        if site.function or (site.constant and not isinstance(node, ast.stmt)):
            choices = list(_choices(node, place))
            if choices:
                yield replace(site, choices=choices, compiled=site.compiled if site.function else "")
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list", "format_spec", "type_params", "targets", "target"):
                continue
            if isinstance(node, ast.FunctionDef) and field == "args":
                continue
            for position, child in enumerate(value if isinstance(value, list) else [value]):
                is_speed = isinstance(child, ast.keyword) and child.arg in _SPEED
                if isinstance(child, ast.AST) and not is_speed:
                    yield from inside(child, (node, field, position if isinstance(value, list) else None), site)

    for position, node in enumerate(tree.body):
        yield from inside(node, (tree, "body", position), _Site(node, node.lineno, "", "", "", []))


def _is_text(node: ast.AST) -> bool:
    """Imports, docstrings, messages, type aliases, and what only the type checker reads."""
    if isinstance(node, ast.Raise | ast.Assert | ast.Import | ast.ImportFrom):
        return True
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.FunctionDef) and node.name == "__repr__":
        return True
    if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
        return True
    if isinstance(node, ast.Subscript) and ast.unparse(node.value) in ("Literal", "Callable", "dict", "tuple", "list"):
        return True
    if isinstance(node, ast.Call):
        name = ast.unparse(node.func)
        return name == "warnings.warn" or name.endswith(("Error", "Declined", "cast", "TypeVar"))
    return False


def _choices(node: ast.AST, place: Place) -> Iterator[Callable[[], ast.stmt | None]]:
    """What can be done to one node; each choice changes the tree in place."""

    def put(new: ast.AST) -> Callable[[], ast.stmt | None]:
        def do() -> ast.stmt | None:
            parent, field, position = place
            if position is None:
                setattr(parent, field, new)
            else:
                getattr(parent, field)[position] = new
            return new if isinstance(new, ast.stmt) else None

        return do

    def changed(**fields: object) -> ast.AST:
        new = copy.copy(node)
        for field, value in fields.items():
            setattr(new, field, value)
        return new

    match node:
        case ast.BinOp() if type(node.op) in _BINARY and not _of_text(node) and not _is_type(node):
            yield put(changed(op=_BINARY[type(node.op)]()))
        case ast.AugAssign():
            if type(node.op) in _BINARY and not _of_text(node.value):
                yield put(changed(op=_BINARY[type(node.op)]()))
            yield put(ast.copy_location(ast.Pass(), node))
        case ast.Compare(ops=[op]):
            for table in (_EDGE, _NEGATED):
                if type(op) in table:
                    yield put(changed(ops=[table[type(op)]()]))
        case ast.Compare(ops=[first, second]):
            if type(first) in _EDGE:
                yield put(changed(ops=[_EDGE[type(first)](), second]))
            if type(second) in _EDGE:
                yield put(changed(ops=[first, _EDGE[type(second)]()]))
        case ast.BoolOp():
            yield put(changed(op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
            yield put(changed(values=node.values[:-1]) if len(node.values) > 2 else node.values[0])
        case ast.UnaryOp(op=ast.Not() | ast.Invert()):
            yield put(node.operand)
        case ast.UnaryOp(op=ast.USub()) if not isinstance(node.operand, ast.Constant):
            yield put(node.operand)
        case ast.Constant(value=bool()):
            yield put(changed(value=not node.value))
        case ast.Constant(value=int()):
            yield put(changed(value=node.value + 1))
            yield put(changed(value=node.value - 1))
        case ast.Constant(value=float()) if node.value == node.value:
            yield put(changed(value=2 * node.value if node.value else 1.0))
        case ast.Slice():
            for field in ("lower", "upper", "step"):
                if getattr(node, field) is not None:
                    yield put(changed(**{field: None}))
        case ast.IfExp():
            yield put(changed(body=node.orelse, orelse=node.body))
        case ast.If() if not node.orelse and not isinstance(node.body[0], ast.Raise):
            yield put(changed(test=ast.UnaryOp(ast.Not(), node.test)))
            yield put(changed(test=ast.Constant(value=False)))
        case ast.Call():
            yield from _calls(node, put, changed)
        case ast.Expr(value=ast.Call()):
            yield put(ast.copy_location(ast.Pass(), node))
        case ast.Assign(targets=[ast.Subscript()]):
            yield put(ast.copy_location(ast.Pass(), node))
        case ast.Continue() | ast.Break():
            yield put(ast.copy_location(ast.Pass(), node))
        case ast.Return(value=ast.Tuple(elts=[first, second])):
            yield put(changed(value=ast.Tuple([second, first], ast.Load())))
        case ast.Starred(value=ast.ListComp() | ast.GeneratorExp()):
            yield put(ast.Starred(ast.List([], ast.Load()), ast.Load()))
        case ast.comprehension(ifs=[_, *_]):
            yield put(changed(ifs=node.ifs[1:]))


def _calls(
    node: ast.Call, put: Callable[[ast.AST], Callable[[], ast.stmt | None]], changed: Callable[..., ast.AST]
) -> Iterator[Callable[[], ast.stmt | None]]:
    """Another function of the same arguments, the argument itself, or the arguments in another order."""
    called = ast.unparse(node.func)
    name = called.rsplit(".", 1)[-1]
    if name in _RENAMED:
        new = copy.copy(node.func)
        setattr(new, "id" if isinstance(new, ast.Name) else "attr", _RENAMED[name])
        if not (isinstance(new, ast.Name) and name == "sum"):
            yield put(changed(func=new))
    if name in _DROPPED and node.args and called in (name, f"np.{name}"):
        yield put(node.args[0])
    alike = all(isinstance(each, ast.Name | ast.Attribute) for each in node.args[:2])  # may be of the same type
    if len(node.args) > 1 and alike and called not in _NOT_SWAPPED:
        yield put(changed(args=[node.args[1], node.args[0], *node.args[2:]]))


def _of_text(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.JoinedStr) or isinstance(getattr(each, "value", None), str) for each in ast.walk(node)
    )


def _is_type(node: ast.BinOp) -> bool:
    """`int | None`, written outside an annotation."""
    if not isinstance(node.op, ast.BitOr):
        return False
    names = {ast.unparse(side) for side in (node.left, node.right)}
    return bool(names & {"None", "str", "int", "float", "Floats", "Indices", "Mask"})
