"""How compiled loops that lay panels reach memory: arrays at an address, vectors, squares.

Loops are told addresses, where looking at tensors would take as long as a small product.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from refluid.kernels.by_numba import intrinsic
from refluid.kernels.vectors import VectorWriter

SIDE = 8


def _at(kind: str) -> Any:
    """In compiled loops: a flat array of such numbers from an address on, as long as need be."""

    def write(_ir: Any, numba: Any) -> Any:
        array = numba.types.Array(getattr(numba.types, kind), 1, "C")

        def generate(context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            arrays = import_module("numba.np.arrayobj")
            made = arrays.make_array(array)(context, builder)
            data = builder.inttoptr(given[0], context.get_value_type(array.dtype).as_pointer())
            size = context.get_constant(numba.types.intp, array.dtype.bitwidth // 8)
            many = context.get_constant(numba.types.intp, 2**40)
            arrays.populate_array(made, data, [many], [size], size, None)
            return made._getvalue()

        return lambda _typing, _address: (array(numba.types.int64), generate)

    return intrinsic(write)


floats_at, doubles_at, counters_at = _at("float32"), _at("float64"), _at("int64")

Generate = Callable[[Any, Any, Any, "list[Any]"], None]


def of_numbers(count: int, generate: Generate) -> Any:
    """A function of compiled loops that takes one tuple of so many whole numbers.

    generate: writes its code, of llvmlite's `ir`, numba's core, a builder, and the numbers.
    """

    def write(ir: Any, numba: Any) -> Any:
        number = numba.types.int64

        def written(_context: Any, builder: Any, _signature: Any, given: Any) -> Any:
            numbers = [builder.extract_value(given[0], place) for place in range(count)]
            generate(ir, numba, builder, numbers)
            return ir.Constant(ir.IntType(64), 0)

        def typed(_typing: Any, _given: Any) -> Any:
            return number(numba.types.UniTuple(number, count)), written

        return typed

    return intrinsic(write, generate)


def floats(ir: Any, builder: Any, address: Any, lanes: int = 1) -> Any:
    """In generated code: a pointer to a float32 at an address, or to a vector of so many."""
    kind = ir.FloatType() if lanes == 1 else ir.VectorType(ir.FloatType(), lanes)
    return builder.inttoptr(address, kind.as_pointer())


def _copied(lanes: int) -> Any:
    """copy((source, target)): so many numbers from one address to another one."""

    def generate(ir: Any, _numba: Any, builder: Any, given: list[Any]) -> None:
        source, target = (floats(ir, builder, one, lanes) for one in given)
        builder.store(builder.load(source, align=4), target, align=4)

    return of_numbers(2, generate)


copy_8, copy_16 = _copied(8), _copied(16)


def _prefetched(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
    place = builder.inttoptr(given[0], ir.IntType(8).as_pointer())
    VectorWriter(ir, numba, builder).fetch(place, 3)


# prefetch((address,)): what is there will be read soon; no harm is done where nothing is.
prefetch = of_numbers(1, _prefetched)

# Which of two vectors' numbers, those of the first one 0 to 7, make one of each pair, of each four
# and of each eight lines.
_PAIRS = [0, 8, 1, 9, 4, 12, 5, 13], [2, 10, 3, 11, 6, 14, 7, 15]
_FOURS = [0, 1, 8, 9, 4, 5, 12, 13], [2, 3, 10, 11, 6, 7, 14, 15]
_EIGHTS = [0, 1, 2, 3, 8, 9, 10, 11], [4, 5, 6, 7, 12, 13, 14, 15]


def _turned(ir: Any, builder: Any, lines: list[Any]) -> list[Any]:
    """Eight vectors of which each has a number of each of the eight lines."""
    words = ir.VectorType(ir.IntType(32), SIDE)

    def shuffled(one: Any, other: Any, order: list[int]) -> Any:
        return builder.shuffle_vector(one, other, ir.Constant(words, order))

    pairs = [shuffled(lines[n], lines[n + 1], order) for n in (0, 2, 4, 6) for order in _PAIRS]
    fours = [shuffled(pairs[n], pairs[n + 2], order) for n in (0, 1, 4, 5) for order in _FOURS]
    return [shuffled(fours[n], fours[n + 4], order) for order in _EIGHTS for n in range(4)]


def _square(ir: Any, _numba: Any, builder: Any, given: list[Any]) -> None:
    first, pitch, target, width = given

    def behind(address: Any, by: Any, number: int) -> Any:
        far = builder.mul(by, ir.IntType(64)(4 * number))
        return floats(ir, builder, builder.add(address, far), SIDE)

    lines = [builder.load(behind(first, pitch, n), align=4) for n in range(SIDE)]
    for n, column in enumerate(_turned(ir, builder, lines)):
        builder.store(column, behind(target, width, n), align=4)


# turn_square((first, pitch, target, width)): eight numbers of each of eight lines, which are
# `pitch` numbers apart; the n-th of all go to the target, `n * width` numbers on.
turn_square = of_numbers(4, _square)
