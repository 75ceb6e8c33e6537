"""Instructions of the processor that numba's Python has no words for: bits of a word, and vectors in short loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

EIGHT = 8  # numbers of a vector; the compiler splits it where the processor's are shorter
FOUR = 4
U = np.uint64


@intrinsic
def trailing_zeros(_: Any, word: Any) -> Any:
    """Position of the lowest set bit of a nonzero word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.cttz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic
def leading_zeros(_: Any, word: Any) -> Any:
    """Number of zeros above the highest set bit of a nonzero word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctlz(arguments[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.uint64), emit


@intrinsic
def count_bits(_: Any, word: Any) -> Any:
    """Number of set bits of a word."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.int64(types.uint64), emit


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of the first number of an array."""
    return context.make_array(kind)(context, builder, array).data


@intrinsic
def store_past_cache(_: Any, array: Any, index: Any, value: Any) -> Any:
    """``array[index] = value`` where much is written that is not read soon: the cache is neither filled nor read."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = _data(context, builder, signature.args[0], arguments[0])
        store = builder.store(arguments[2], builder.gep(data, [arguments[1]]))
        store.set_metadata("nontemporal", builder.module.add_metadata([ir.Constant(ir.IntType(32), 1)]))
        return context.get_dummy_value()

    return types.void(array, index, value), emit


def _place(context: Any, builder: Any, signature: Any, arguments: Any, k: int, lanes: int) -> Any:
    """The address of some neighbouring numbers: argument k is the array, the next one their place, row by row."""
    place = builder.gep(_data(context, builder, signature.args[k], arguments[k]), [arguments[k + 1]])
    return builder.bitcast(place, ir.VectorType(place.type.pointee, lanes).as_pointer())


def _load(builder: Any, place: Any) -> Any:
    numbers = builder.load(place)
    numbers.align = 8
    return numbers


def _sum(builder: Any, kind: Any, first: Any, second: Any) -> Any:
    return (builder.add if isinstance(kind.dtype, types.Integer) else builder.fadd)(first, second)


def _add(lanes: int) -> Any:
    """An intrinsic that adds `lanes` numbers."""

    def add(_: Any, to: Any, at: Any, source_type: Any, begin: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            place, other = (_place(context, builder, signature, arguments, k, lanes) for k in (0, 2))
            builder.store(_sum(builder, to, _load(builder, place), _load(builder, other)), place).align = 8
            return context.get_dummy_value()

        return types.void(to, types.uint64, source_type, types.uint64), emit

    return intrinsic(add)


add_eight = _add(EIGHT)  # to[at : at + 8] += given[begin : begin + 8]: numbers of an array are counted row by row
add_four = _add(FOUR)


@intrinsic
def sum_subsets_of_three(_: Any, table: Any, start: Any) -> Any:
    """Sums over the subsets of three players, in place of table[at :][:8]."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _place(context, builder, signature, arguments, 0, EIGHT)
        sums = _load(builder, place)
        zeros = ir.Constant(sums.type, [0] * EIGHT)
        for bit in (1, 2, 4):
            order = [S ^ bit if S & bit else EIGHT for S in range(EIGHT)]  # EIGHT: a zero
            mask = ir.Constant(ir.VectorType(ir.IntType(32), EIGHT), order)
            sums = _sum(builder, table, sums, builder.shuffle_vector(sums, zeros, mask))
        builder.store(sums, place).align = 8
        return context.get_dummy_value()

    return types.void(table, types.uint64), emit


@njit
def sum_subsets(table, start, players):
    """Replace the entry of each set of players, from `start` on, by the sum over its subsets."""
    stop, bit = start + (U(1) << players), U(1)
    if players >= U(3):
        bit = U(8)
        for S in range(start, stop, U(8)):
            sum_subsets_of_three(table, S)
    while bit < stop - start:
        first = start
        while first < stop:  # no `range`: numba raises an error for steps of 0, and counts references for that
            if bit >= U(8):
                for S in range(first, first + bit, U(8)):
                    add_eight(table, S + bit, table, S)
            else:
                for S in range(first, first + bit):
                    table[S + bit] += table[S]
            first += bit + bit
        bit += bit
