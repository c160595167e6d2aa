"""What compiled loops do with some rows of a large matrix and some lines of a small one.

A matrix is told by an address and how far its rows are apart. Its rows are passed over by vectors,
the last one by a mask; meanwhile the rows behind them come into the caches.
"""

from __future__ import annotations

from typing import Any

from refluid.kernels.panels.laying import floats, of_numbers
from refluid.kernels.vectors import VectorWriter

# Rows of the large matrix, and lines of the small one at most, that are taken at once.
ROWS = LINES = 4


class _Rows(VectorWriter):
    """Writes loops over some rows."""

    def row(self, begin: Any, pitch: Any, number: int) -> Any:
        """The address of a row so many rows on."""
        far = self.builder.mul(pitch, self.size(number))
        return self.builder.gep(begin, [far])

    def everywhere(self, begin: Any, down: Any, right: Any, line: int, at: int) -> Any:
        """One number of a matrix of any strides, in all lanes."""
        place = self.row(self.row(begin, down, line), right, at)
        return self.spread(self.builder.load(place), self.type)


def _adding(lines: int) -> Any:
    """add_to_n((a, down, right, b, pitch, out, apart, count)): out += a · b.

    a: lines of ROWS numbers each. b: as many rows of `count` numbers, as the lines of out.
    """

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        a, down, right, b, pitch, out, apart, count = given
        to = _Rows(ir, numba, builder)
        a, b, out = (floats(ir, builder, one) for one in (a, b, out))
        factors = [[to.everywhere(a, down, right, m, r) for r in range(ROWS)] for m in range(lines)]
        sources = [to.row(b, pitch, r) for r in range(ROWS)]
        behind = [to.row(b, pitch, ROWS + r) for r in range(ROWS)]
        targets = [to.row(out, apart, m) for m in range(lines)]

        def each(place: Any, mask: Any) -> None:
            for one in behind:
                to.fetch(to.at(one, place), 3)
            found = [to.read(to.at(one, place), mask) for one in sources]
            for target, own in zip(targets, factors, strict=True):
                total = to.read(to.at(target, place), mask)
                for one, factor in zip(found, own, strict=True):
                    total = to.multiply_add(one, factor, total)
                to.write(total, to.at(target, place), mask)

        to.each_vector(numba, count, each)

    return of_numbers(8, generate)


def _dotting(lines: int) -> Any:
    """dot_by_n((a, apart, b, pitch, out, down, right, count)): out += a · bᵀ.

    a: lines of `count` numbers each, b: ROWS rows of as many. out: a number of each line and row.
    """

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        a, apart, b, pitch, out, down, right, count = given
        to = _Rows(ir, numba, builder)
        a, b, out = (floats(ir, builder, one) for one in (a, b, out))
        sums = [
            [numba.cgutils.alloca_once_value(builder, to.all(0.0)) for _ in range(ROWS)]
            for _ in range(lines)
        ]
        for one in (one for line in sums for one in line):
            builder.store(to.all(0.0), one)

        def each(place: Any, mask: Any) -> None:
            for r in range(ROWS):
                to.fetch(to.at(to.row(b, pitch, ROWS + r), place), 3)
            found = [to.read(to.at(to.row(b, pitch, r), place), mask) for r in range(ROWS)]
            for m, line in enumerate(sums):
                one = to.read(to.at(to.row(a, apart, m), place), mask)
                for factor, total in zip(found, line, strict=True):
                    builder.store(to.multiply_add(one, factor, builder.load(total)), total)

        to.each_vector(numba, count, each)
        for m, line in enumerate(sums):
            for r, total in enumerate(line):
                place = to.row(to.row(out, down, m), right, r)
                dot = to.reduced("fadd", builder.load(total))
                builder.store(builder.fadd(builder.load(place), dot), place)

    return of_numbers(8, generate)


def _spanning() -> Any:
    """span_rows((a, down, right, b, pitch, out, apart, lines, count)): out = aᵀ · b.

    a: `lines` of ROWS numbers each. b: as many lines of `count` numbers, as the rows of out.
    """

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        a, down, right, b, pitch, out, apart, lines, count = given
        to = _Rows(ir, numba, builder)
        a, b, out = (floats(ir, builder, one) for one in (a, b, out))
        sums = [numba.cgutils.alloca_once_value(builder, to.all(0.0)) for _ in range(ROWS)]

        def each(place: Any, mask: Any) -> None:
            for one in sums:
                builder.store(to.all(0.0), one)
            with numba.cgutils.for_range(builder, lines) as loop:
                source = builder.gep(b, [builder.mul(loop.index, pitch)])
                line = builder.gep(a, [builder.mul(loop.index, down)])
                found = to.read(to.at(source, place), mask)
                for r, total in enumerate(sums):
                    factor = to.everywhere(line, down, right, 0, r)
                    builder.store(to.multiply_add(found, factor, builder.load(total)), total)
            for r, total in enumerate(sums):
                to.write(builder.load(total), to.at(to.row(out, apart, r), place), mask)

        to.each_vector(numba, count, each)

    return of_numbers(9, generate)


add_to_1, add_to_2, add_to_3, add_to_4 = (_adding(n) for n in range(1, LINES + 1))
dot_by_1, dot_by_2, dot_by_3, dot_by_4 = (_dotting(n) for n in range(1, LINES + 1))
span_rows = _spanning()
