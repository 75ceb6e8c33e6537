"""Loops of kernels over `each(...)`, with the arguments of `range`: a tenth of the code of numba's own to compile.

Numbers are unsigned if all arguments are, else signed; steps are positive.
"""

from __future__ import annotations

from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.imputils import RefType, impl_ret_untracked, iternext_impl
from numba.extending import intrinsic, lower_builtin, models, register_model


class NumberSteps(types.SimpleIterableType):
    """The type of what is looped over."""

    def __init__(self, number: Any) -> None:
        super().__init__(f"NumberSteps({number})", _NumberIterator(number))


class _NumberIterator(types.SimpleIteratorType):
    def __init__(self, number: Any) -> None:
        super().__init__(f"StepsIterator({number})", number)


@register_model(NumberSteps)
class _NumberStepsModel(models.StructModel):
    def __init__(self, manager: Any, kind: NumberSteps) -> None:
        number = kind.iterator_type.yield_type
        super().__init__(manager, kind, [("start", number), ("stop", number), ("step", number)])


@register_model(_NumberIterator)
class _IteratorModel(models.StructModel):
    def __init__(self, manager: Any, kind: _NumberIterator) -> None:
        number = kind.yield_type
        super().__init__(manager, kind, [("at", types.CPointer(number)), ("stop", number), ("step", number)])


@intrinsic
def each(_: Any, *bounds: Any) -> Any:
    """The numbers from 0, or the first of two, up to but without the last, in steps of 1 or the third."""
    given = bounds[0] if isinstance(bounds[0], types.BaseTuple) else bounds
    number = types.int64 if any(kind.signed and not _is_natural(kind) for kind in given) else types.uint64
    kind = NumberSteps(number)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = cgutils.unpack_tuple(builder, arguments[0], len(given))
        values = [context.cast(builder, value, one, number) for value, one in zip(values, given, strict=True)]
        start, stop = (values[0].type(0), values[0]) if len(values) == 1 else values[:2]
        step = values[2] if len(values) == 3 else stop.type(1)
        return cgutils.pack_struct(builder, [start, stop, step])

    return kind(types.StarArgTuple(given)), emit


def _is_natural(kind: Any) -> bool:
    """A constant that is not negative."""
    return isinstance(kind, types.IntegerLiteral) and kind.literal_value >= 0


@lower_builtin("getiter", NumberSteps)
def _begin(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    start, stop, step = cgutils.unpack_tuple(builder, arguments[0], 3)
    at = cgutils.alloca_once_value(builder, start)
    return impl_ret_untracked(context, builder, signature.return_type, cgutils.pack_struct(builder, [at, stop, step]))


@lower_builtin("iternext", _NumberIterator)
@iternext_impl(RefType.UNTRACKED)
def _next(context: Any, builder: Any, signature: Any, arguments: Any, result: Any) -> None:
    at, stop, step = cgutils.unpack_tuple(builder, arguments[0], 3)
    compare = builder.icmp_signed if signature.args[0].yield_type.signed else builder.icmp_unsigned
    now = builder.load(at)
    result.set_valid(compare("<", now, stop))
    result.yield_(now)
    builder.store(builder.add(now, step), at)  # also after the last, which is not read
