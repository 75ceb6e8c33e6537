"""Arrays as kernels see them: a pointer and a shape. Half of the code of numba's own arrays, which is compiled faster.

Numbers of one type, row by row, that kernels may write to. Any integer is an index, and a signed one counts from the
end if it is negative; fewer indices than axes give an array of the other axes. No slices.
"""

from __future__ import annotations

import operator
from typing import Any

from numba import types
from numba.core import cgutils
from numba.core.typeconv import Conversion
from numba.core.typing.templates import AbstractTemplate, AttributeTemplate, infer_getattr, infer_global, signature
from numba.extending import NativeValue, lower_builtin, lower_getattr, models, register_model, unbox


class PlainArray(types.Type):
    """The type of an array of numbers of a type, with so many axes."""

    def __init__(self, dtype: Any, ndim: int) -> None:
        self.dtype, self.ndim, self.passed = dtype, ndim, types.Array(dtype, ndim, "C")
        super().__init__(f"PlainArray({dtype}, {ndim})")

    def can_convert_from(self, context: Any, other: Any) -> Any:
        """From NumPy's arrays that numba would take for one of its own."""
        return Conversion.safe if context.can_convert(other, self.passed) is not None else None


def array_of(dtype: Any, ndim: int = 1) -> PlainArray:
    """The type of an array whose numbers are read and written one by one."""
    return PlainArray(dtype, ndim)


def sliced_array(dtype: Any, ndim: int = 1) -> Any:
    """numba's own type, for kernels that take slices of arrays."""
    return types.Array(dtype, ndim, "C")


@register_model(PlainArray)
class _PlainModel(models.StructModel):
    def __init__(self, manager: Any, kind: PlainArray) -> None:
        sizes = [(f"size{axis}", types.intp) for axis in range(kind.ndim)]
        super().__init__(manager, kind, [("data", types.CPointer(kind.dtype)), *sizes])


@unbox(PlainArray)
def _unbox(kind: PlainArray, array: Any, c: Any) -> Any:
    native, layout = c.unbox(kind.passed, array), c.context.data_model_manager[kind.passed]
    data, shape = (c.builder.extract_value(native.value, layout.get_field_position(name)) for name in ("data", "shape"))
    plain = cgutils.pack_struct(c.builder, [data, *cgutils.unpack_tuple(c.builder, shape, kind.ndim)])
    return NativeValue(plain, native.is_error, native.cleanup)


def _indices(kind: Any) -> list[Any] | None:
    """The types of integers; None if there is anything else."""
    parts = list(kind) if isinstance(kind, types.BaseTuple) else [kind]
    return parts if all(isinstance(part, types.Integer) for part in parts) else None


@infer_global(operator.getitem)
class _GetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index = args
        if not isinstance(array, PlainArray) or (parts := _indices(index)) is None or len(parts) > array.ndim:
            return None
        left = array.ndim - len(parts)
        return signature(PlainArray(array.dtype, left) if left else array.dtype, array, index)


@infer_global(operator.setitem)
class _SetItem(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        array, index, _ = args
        if not isinstance(array, PlainArray) or (parts := _indices(index)) is None or len(parts) != array.ndim:
            return None
        return signature(types.none, array, index, array.dtype)


@infer_global(len)
class _Length(AbstractTemplate):
    def generic(self, args: Any, kws: Any) -> Any:
        return signature(types.intp, *args) if isinstance(args[0], PlainArray) else None


@infer_getattr
class _Attributes(AttributeTemplate):
    key = PlainArray

    def resolve_shape(self, array: PlainArray) -> Any:
        """As many integers as axes."""
        return types.UniTuple(types.intp, array.ndim)

    def resolve_address(self, array: PlainArray) -> Any:
        """Of the first number."""
        return types.intp


def _place(context: Any, builder: Any, kinds: Any, array: Any, index: Any) -> Any:
    """The address of a number, or of the first of an array."""
    parts, ndim = _indices(kinds[1]) or [], kinds[0].ndim
    values = cgutils.unpack_tuple(builder, index, len(parts)) if isinstance(kinds[1], types.BaseTuple) else [index]
    at = None
    for axis, (part, value) in enumerate(zip(parts, values, strict=True)):
        wide = context.cast(builder, value, part, types.int64 if part.signed else types.uint64)
        size = builder.extract_value(array, 1 + axis) if axis or part.signed else None
        if part.signed and not (isinstance(part, types.IntegerLiteral) and part.literal_value >= 0):
            below = builder.icmp_signed("<", wide, wide.type(0))
            wide = builder.select(below, builder.add(wide, size), wide)
        at = wide if at is None else builder.add(builder.mul(at, size), wide)
    for axis in range(len(parts), ndim):
        at = builder.mul(at, builder.extract_value(array, 1 + axis))
    return builder.gep(builder.extract_value(array, 0), [at])


@lower_builtin(operator.getitem, PlainArray, types.Integer)
@lower_builtin(operator.getitem, PlainArray, types.BaseTuple)
def _get(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    place, array = _place(context, builder, sig.args, *args), sig.return_type
    if not isinstance(array, PlainArray):
        return builder.load(place)
    first = 1 + sig.args[0].ndim - array.ndim
    return cgutils.pack_struct(
        builder, [place, *(builder.extract_value(args[0], first + axis) for axis in range(array.ndim))]
    )


@lower_builtin(operator.setitem, PlainArray, types.Integer, types.Any)
@lower_builtin(operator.setitem, PlainArray, types.BaseTuple, types.Any)
def _set(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    builder.store(args[2], _place(context, builder, sig.args, *args[:2]))
    return context.get_dummy_value()


@lower_builtin(len, PlainArray)
def _length(context: Any, builder: Any, sig: Any, args: Any) -> Any:
    return builder.extract_value(args[0], 1)


@lower_getattr(PlainArray, "address")
def _address(context: Any, builder: Any, kind: PlainArray, array: Any) -> Any:
    return builder.ptrtoint(builder.extract_value(array, 0), context.get_value_type(types.intp))


@lower_getattr(PlainArray, "shape")
def _shape(context: Any, builder: Any, kind: PlainArray, array: Any) -> Any:
    return cgutils.pack_array(builder, [builder.extract_value(array, 1 + axis) for axis in range(kind.ndim)])
