"""What loops over tags do with a row of numbers and the lines of a matrix.

The matrix is told by its address; its lines, `width` numbers each, follow one another. They are
passed over by vectors, the last one by a mask, each from the first line to the last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from refluid.kernels.panels.laying import floats, of_numbers
from refluid.kernels.vectors import VectorWriter

# Results are made of so many parts, each of every so many lines: none waits for the one before.
_PARTS = 4

Combine = Callable[[VectorWriter, Any, Any, Any], Any]


class _Joined(NamedTuple):
    """How a line is joined with its number to what was found before, and how parts are.

    start: what is found before; None for what is there.
    """

    start: float | None
    line: Combine
    parts: Callable[[VectorWriter, Any, Any], Any]


def _over_lines(how: _Joined) -> Any:
    """A function ((x, step, lines, matrix, width, out)) for loops: out is made of all lines, each
    with a number of x, of which the next one lies `step` numbers on."""

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        x, step, lines, matrix, width, out = given
        to, utils = VectorWriter(ir, numba, builder), numba.cgutils
        x, matrix, out = (floats(ir, builder, one) for one in (x, matrix, out))
        found = [utils.alloca_once(builder, to.type) for _ in range(_PARTS)]
        rounds = builder.sdiv(lines, to.size(_PARTS))
        done = builder.mul(rounds, to.size(_PARTS))

        def join(line: Any, place: Any, mask: Any, part: Any) -> None:
            row = builder.gep(matrix, [builder.mul(line, width)])
            number = to.spread(builder.load(builder.gep(x, [builder.mul(line, step)])), to.type)
            own = to.read(to.at(row, place), mask)
            builder.store(how.line(to, number, own, builder.load(part)), part)

        def each(place: Any, mask: Any) -> None:
            target = to.at(out, place)
            first = to.read(target, mask) if how.start is None else to.all(how.start)
            for part in found:
                builder.store(to.all(how.start or 0.0) if part is not found[0] else first, part)
            with utils.for_range(builder, rounds) as loop:
                begin = builder.mul(loop.index, to.size(_PARTS))
                for number, part in enumerate(found):
                    join(builder.add(begin, to.size(number)), place, mask, part)
            with utils.for_range(builder, lines, start=done) as loop:
                join(loop.index, place, mask, found[0])
            a, b, c, d = map(builder.load, found)
            to.write(how.parts(to, how.parts(to, a, b), how.parts(to, c, d)), target, mask)

        to.each_vector(numba, width, each)

    return of_numbers(6, generate)


def _greater(to: VectorWriter, one: Any, other: Any) -> Any:
    return to.builder.select(to.builder.fcmp_ordered(">", one, other), one, other)


def _add(to: VectorWriter, one: Any, other: Any) -> Any:
    return to.builder.fadd(one, other)


def _multiply_add(to: VectorWriter, number: Any, line: Any, before: Any) -> Any:
    return to.multiply_add(number, line, before)


# sum_lines((x, step, lines, matrix, width, out)): out = Σ x · line; add_lines: out += that.
sum_lines = _over_lines(_Joined(0.0, _multiply_add, _add))
add_lines = _over_lines(_Joined(None, _multiply_add, _add))
# best_lines((x, step, lines, matrix, width, out)): out = max (x + line), of no NaN.
best_lines = _over_lines(
    _Joined(
        float("-inf"),
        lambda to, number, line, before: _greater(to, to.builder.fadd(number, line), before),
        _greater,
    )
)


def _four_at_once() -> Any:
    """add_four((x, step, lines, matrix, width, out)): `add_lines` of four numbers of x that lie
    side by side, for as many lines of out, `width` numbers each."""

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        x, step, lines, matrix, width, out = given
        to, utils = VectorWriter(ir, numba, builder), numba.cgutils
        x, matrix, out = (floats(ir, builder, one) for one in (x, matrix, out))
        found = [utils.alloca_once(builder, to.type) for _ in range(_PARTS)]
        outs = [builder.gep(out, [builder.mul(width, to.size(r))]) for r in range(_PARTS)]

        def each(place: Any, mask: Any) -> None:
            for target, part in zip(outs, found, strict=True):
                builder.store(to.read(to.at(target, place), mask), part)
            with utils.for_range(builder, lines) as loop:
                row = builder.gep(matrix, [builder.mul(loop.index, width)])
                numbers = builder.gep(x, [builder.mul(loop.index, step)])
                own = to.read(to.at(row, place), mask)
                for r, part in enumerate(found):
                    number = builder.load(builder.gep(numbers, [to.size(r)]))
                    more = to.multiply_add(to.spread(number, to.type), own, builder.load(part))
                    builder.store(more, part)
            for target, part in zip(outs, found, strict=True):
                to.write(builder.load(part), to.at(target, place), mask)

        to.each_vector(numba, width, each)

    return of_numbers(6, generate)


add_four = _four_at_once()
