"""Vectors of float32 in compiled loops: what LLVM doesn't make of a plain loop, since it would have
to add in another order, or has no function of vectors for.

A vector has as many lanes as the widest registers; on narrower ones LLVM takes several for it. The
last elements of a row, fewer than a vector's, are loaded and stored by a mask; all others without:
processors without AVX-512 take ten times as long to store by one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from refluid.kernels.by_numba import intrinsic

LANES = 16
# exp(x) = 2**n * exp(x - n * log 2), the latter by a polynomial; log 2 in two parts, of which n
# times the first is exact. Adding and taking away _ROUNDING leaves the nearest whole number.
_LOG2_E, _LOG2_HIGH, _LOG2_LOW = 1.44269504088896341, 0.693359375, -2.12194440e-4
_ROUNDING = 1.5 * 2**23
_POLYNOMIAL = (
    *(1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3),
    *(4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1),
)
# tanh(x) is x + x³ times a polynomial of x² up to _NEAR, where 1 - exp(-2x) would lose digits.
_TANGENT = (
    *(-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2),
    *(1.33314422036e-1, -3.33332819422e-1),
)
_NEAR = 0.625
_LEAST = -104.0  # exp of less is 0
_BIAS, _FRACTION = 127, 23


class VectorWriter:
    """LLVM's code of vectors, at the place of a builder."""

    def __init__(self, ir: Any, numba: Any, builder: Any) -> None:
        self.ir, self.builder, self._get = ir, builder, numba.cgutils.get_or_insert_function
        self.number, self.word, self.size = ir.FloatType(), ir.IntType(32), ir.IntType(64)
        self.type = ir.VectorType(self.number, LANES)
        self.words = ir.VectorType(self.word, LANES)

    def all(self, value: float) -> Any:
        """A number in all lanes."""
        return self.ir.Constant(self.type, [value] * LANES)

    def spread(self, value: Any, kind: Any) -> Any:
        """A value in all lanes of a vector of that type."""
        empty, first = self.ir.Constant(kind, self.ir.Undefined), self.word(0)
        one = self.builder.insert_element(empty, value, first)
        return self.builder.shuffle_vector(one, empty, self.ir.Constant(self.words, [0] * LANES))

    def mask(self, left: Any) -> Any:
        """The lanes before the number of elements that are left."""
        lanes = self.ir.Constant(self.words, [*range(LANES)])
        few = self.builder.select(
            self.builder.icmp_signed("<", left, self.size(LANES)), left, self.size(LANES)
        )
        count = self.spread(self.builder.trunc(few, self.word), self.words)
        return self.builder.icmp_signed("<", lanes, count)

    def call(self, name: str, result: Any, *given: Any) -> Any:
        kind = self.ir.FunctionType(result, [one.type for one in given])
        return self.builder.call(self._get(self.builder.module, kind, name), given)

    def load(self, place: Any, mask: Any, otherwise: Any) -> Any:
        name = f"llvm.masked.load.v{LANES}f32.p0"
        return self.call(name, self.type, place, self.word(4), mask, otherwise)

    def store(self, value: Any, place: Any, mask: Any) -> None:
        name = f"llvm.masked.store.v{LANES}f32.p0"
        self.call(name, self.ir.VoidType(), value, place, self.word(4), mask)

    def read(self, place: Any, mask: Any, otherwise: float = 0.0) -> Any:
        """What is there; by a mask, or without one a whole vector."""
        if mask is None:
            return self.builder.load(place, align=4)
        return self.load(place, mask, self.all(otherwise))

    def write(self, value: Any, place: Any, mask: Any) -> None:
        """As `read`."""
        if mask is None:
            self.builder.store(value, place, align=4)
        else:
            self.store(value, place, mask)

    def at(self, row: Any, place: Any) -> Any:
        """A pointer to the vector there."""
        return self.builder.bitcast(self.builder.gep(row, [place]), self.type.as_pointer())

    def each_vector(self, numba: Any, count: Any, each: Callable[[Any, Any], None]) -> None:
        """`each` of the place of every vector of a row, and its mask: None for a whole one."""
        builder, lanes = self.builder, self.size(LANES)
        whole = builder.sdiv(count, lanes)
        with numba.cgutils.for_range(builder, whole) as loop:
            each(builder.mul(loop.index, lanes), None)
        done = builder.mul(whole, lanes)
        left = builder.sub(count, done)
        with builder.if_then(builder.icmp_signed(">", left, self.size(0))):
            each(done, self.mask(left))

    def fetch(self, place: Any, nearness: int) -> None:
        """What is there, if anything is, will be read soon: it comes into the caches, for 3 into
        the nearest, too."""
        place = self.builder.bitcast(place, self.ir.IntType(8).as_pointer())
        numbers = map(self.word, (0, nearness, 1))
        self.call("llvm.prefetch.p0", self.ir.VoidType(), place, *numbers)

    def multiply_add(self, a: Any, b: Any, c: Any) -> Any:
        return self.call(f"llvm.fmuladd.v{LANES}f32", self.type, a, b, c)

    def reduced(self, how: str, lanes: Any) -> Any:
        """The sum of all lanes (fadd), or the greatest one (fmax)."""
        given = (self.number(-0.0), lanes) if how == "fadd" else (lanes,)
        return self.call(f"llvm.vector.reduce.{how}.v{LANES}f32", self.number, *given)

    def exp(self, x: Any) -> Any:
        """exp of numbers up to 0, and of NaN."""
        builder, all_, multiply_add = self.builder, self.all, self.multiply_add
        small = builder.fcmp_ordered("<", x, all_(_LEAST))
        x = builder.select(small, all_(_LEAST), x)
        shifted = multiply_add(x, all_(_LOG2_E), all_(_ROUNDING))
        whole = builder.fsub(shifted, all_(_ROUNDING))
        rest = multiply_add(whole, all_(-_LOG2_HIGH), x)
        rest = multiply_add(whole, all_(-_LOG2_LOW), rest)
        found = all_(_POLYNOMIAL[0])
        for one in _POLYNOMIAL[1:]:
            found = multiply_add(found, rest, all_(one))
        found = multiply_add(builder.fmul(found, rest), rest, rest)
        found = builder.fadd(found, all_(1.0))
        # By two factors: the least results, which are subnormal, have an exponent no number has.
        real = builder.select(builder.fcmp_ordered("ord", x, x), whole, all_(0.0))
        count = builder.fptosi(real, self.words)
        half = builder.ashr(count, self._words(1))
        for one in (half, builder.sub(count, half)):
            found = builder.fmul(found, self._power(one))
        return builder.select(small, all_(0.0), found)

    def signed(self, sizes: Any, signs: Any) -> Any:
        """Numbers from 0 on with the signs of others."""
        return self.call(f"llvm.copysign.v{LANES}f32", self.type, sizes, signs)

    def _power(self, exponents: Any) -> Any:
        """2 to the power of whole numbers."""
        builder = self.builder
        bits = builder.shl(builder.add(exponents, self._words(_BIAS)), self._words(_FRACTION))
        return builder.bitcast(bits, self.type)

    def _words(self, value: int) -> Any:
        return self.ir.Constant(self.words, [value] * LANES)


EachVector = Callable[[VectorWriter, list[Any], Any, Any, Any], Any]


def _of_row(start: float, each: EachVector, end: str) -> Any:
    """A function of two arrays of float32, of the first of a row's elements in them, of how many it
    has, and of a number, for compiled loops.

    It gives what `end` makes of lanes, of which each is `start` and then what `each` makes of it:
    of the places in both arrays, a mask or None, the lanes so far, and the number in all lanes.
    """

    def write(ir: Any, numba: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            to, get = VectorWriter(ir, numba, builder), context.make_array
            *arrays, first, count, number = given
            begins = [
                builder.gep(get(kind)(context, builder, one).data, [first])
                for kind, one in zip(signature.args[:2], arrays, strict=True)
            ]
            spread, kept = to.spread(number, to.type), numba.cgutils.alloca_once(builder, to.type)
            builder.store(to.all(start), kept)

            def all_lanes(place: Any, mask: Any) -> None:
                places = [to.at(one, place) for one in begins]
                builder.store(each(to, places, mask, builder.load(kept), spread), kept)

            to.each_vector(numba, count, all_lanes)
            return to.reduced(end, builder.load(kept))

        def typed(_typing: Any, x: Any, out: Any, first: Any, count: Any, number: Any) -> Any:
            return numba.types.float32(x, out, first, count, number), generate

        return typed

    return intrinsic(write)


def _higher(to: VectorWriter, places: list[Any], mask: Any, highest: Any, _number: Any) -> Any:
    found = to.read(places[0], mask, float("-inf"))
    return to.call(f"llvm.maxnum.v{LANES}f32", to.type, highest, found)


def _exponential(to: VectorWriter, places: list[Any], mask: Any, total: Any, number: Any) -> Any:
    given = to.read(places[0], mask, float("-inf"))
    found = to.exp(to.builder.fsub(given, number))
    if mask is not None:
        found = to.builder.select(mask, found, to.all(0.0))
    to.write(found, places[1], mask)
    return to.builder.fadd(total, found)


def _multiplied(to: VectorWriter, places: list[Any], mask: Any, lanes: Any, number: Any) -> Any:
    given = to.read(places[0], mask)
    to.write(to.builder.fmul(given, number), places[1], mask)
    return lanes


def _divided(to: VectorWriter, places: list[Any], mask: Any, lanes: Any, number: Any) -> Any:
    given = to.read(places[0], mask)
    to.write(to.builder.fdiv(given, number), places[1], mask)
    return lanes


def _added(to: VectorWriter, places: list[Any], mask: Any, lanes: Any, number: Any) -> Any:
    given, before = (to.read(place, mask) for place in places)
    to.write(to.multiply_add(given, number, before), places[1], mask)
    return lanes


def _weighed(to: VectorWriter, places: list[Any], mask: Any, total: Any, _number: Any) -> Any:
    found = to.builder.fmul(to.read(places[0], mask), to.read(places[1], mask))
    to.write(found, places[1], mask)
    return to.builder.fadd(total, found)


def _pair(to: VectorWriter, places: list[Any], mask: Any, total: Any, _number: Any) -> Any:
    return to.multiply_add(to.read(places[0], mask), to.read(places[1], mask), total)


def _endless(to: VectorWriter, places: list[Any], mask: Any, total: Any, _number: Any) -> Any:
    below = to.builder.fcmp_ordered("<", to.read(places[0], mask), to.all(float("inf")))
    return to.builder.select(below, total, to.all(1.0))


def _square(to: VectorWriter, places: list[Any], mask: Any, total: Any, _number: Any) -> Any:
    given = to.read(places[0], mask)
    return to.multiply_add(given, given, total)


def _sigmoid(to: VectorWriter, places: list[Any], mask: Any, lanes: Any, _number: Any) -> Any:
    builder, one = to.builder, to.all(1.0)
    given = to.read(places[0], mask)
    small = to.exp(to.signed(given, to.all(-1.0)))
    above = builder.select(builder.fcmp_ordered("<", given, to.all(0.0)), small, one)
    to.write(builder.fdiv(above, builder.fadd(one, small)), places[1], mask)
    return lanes


def _tangent(to: VectorWriter, places: list[Any], mask: Any, lanes: Any, _number: Any) -> Any:
    builder, all_, one = to.builder, to.all, to.all(1.0)
    given = to.read(places[0], mask)
    size, square = to.signed(given, one), builder.fmul(given, given)
    near = all_(_TANGENT[0])
    for factor in _TANGENT[1:]:
        near = to.multiply_add(near, square, all_(factor))
    near = to.multiply_add(builder.fmul(near, square), size, size)
    small = to.exp(builder.fmul(size, all_(-2.0)))
    far = builder.fdiv(builder.fsub(one, small), builder.fadd(one, small))
    found = builder.select(builder.fcmp_ordered("<", size, all_(_NEAR)), near, far)
    to.write(to.signed(found, given), places[1], mask)
    return lanes


# weighed(x, out, first, count, 0): out *= x; gives its sum.
weighed = _of_row(0.0, _weighed, "fadd")
# pairs(x, y, first, count, 0): the sum of their products.
pairs = _of_row(0.0, _pair, "fadd")
# endless(x, x, first, count, 0): 1 where an element is NaN or infinite and positive, else 0.
endless = _of_row(0.0, _endless, "fmax")
# squares(x, x, first, count, 0): the sum of the squares of `count` elements.
squares = _of_row(0.0, _square, "fadd")
# highest(x, x, first, count, 0): the greatest of `count` elements; NaN only where all of them are.
highest = _of_row(float("-inf"), _higher, "fmax")
# exponentials(x, out, first, count, top): out = exp(x - top), of x up to top; gives their sum.
exponentials = _of_row(0.0, _exponential, "fadd")
# multiplied(x, out, first, count, by): out = x * by.
multiplied = _of_row(0.0, _multiplied, "fmax")
# divided(x, out, first, count, by): out = x / by.
divided = _of_row(0.0, _divided, "fmax")
# added(x, out, first, count, by): out += x * by.
added = _of_row(0.0, _added, "fmax")
# sigmoids(x, out, first, count, 0), tangents(x, out, first, count, 0): of each; out may be x.
sigmoids = _of_row(0.0, _sigmoid, "fmax")
tangents = _of_row(0.0, _tangent, "fmax")
