"""A tile of a product in compiled loops: some rows by one or two vectors of columns."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from refluid.kernels.panels.laying import floats, of_numbers
from refluid.kernels.processor import vector_bits
from refluid.kernels.vectors import LANES, VectorWriter


class TileSizes(NamedTuple):
    """The tiles for a processor's registers: the vectors of a row; the height that fills them, and
    two for few rows."""

    vectors: int
    height: int
    low: tuple[int, int]

    @property
    def width(self) -> int:
        """How many columns a tile has."""
        return self.vectors * LANES


@cache
def tile_sizes() -> TileSizes:
    """Those for 16 registers of 256 bits, or for 32 of 512 bits where torch uses such."""
    return TileSizes(2, 12, (10, 8)) if vector_bits() == 512 else TileSizes(1, 6, (5, 4))


class _Tile(VectorWriter):
    """Writes LLVM's code of a tile: its sums stay in registers while they are made."""

    def __init__(self, ir: Any, numba: Any, builder: Any, rows: int, vectors: int) -> None:
        super().__init__(ir, numba, builder)
        self.utils, self.rows, self.vectors = numba.cgutils, rows, vectors
        self.sums = [
            [self.utils.alloca_once(builder, self.type) for _ in range(vectors)]
            for _ in range(rows)
        ]

    def vector(self, begin: Any, number: int) -> Any:
        """The address of so many vectors behind another one."""
        place = self.builder.gep(begin, [self.size(number * LANES)])
        return self.builder.bitcast(place, self.type.as_pointer())

    def add_up(self, left: Any, right: Any, depth: Any, ahead: Any, apart: Any, count: int) -> None:
        """The sums of products of the two panels, one number of each line after the other.

        ahead: what comes into the caches meanwhile, so many vectors for each number, `apart`
        numbers behind those for the last one.
        """
        builder, width = self.builder, self.size(self.vectors * LANES)
        for one in (one for row in self.sums for one in row):
            builder.store(self.all(0.0), one)
        with self.utils.for_range(builder, depth) as loop:
            a = builder.gep(left, [builder.mul(loop.index, self.size(self.rows))])
            b = builder.gep(right, [builder.mul(loop.index, width)])
            for v in range(count):
                place = builder.gep(ahead, [builder.mul(loop.index, apart)])
                self.fetch(self.vector(place, v), 2)
            factors = [builder.load(self.vector(b, v), align=4) for v in range(self.vectors)]
            for r, row in enumerate(self.sums):
                one = self.spread(builder.load(builder.gep(a, [self.size(r)])), self.type)
                for factor, total in zip(factors, row, strict=True):
                    found = self.multiply_add(one, factor, builder.load(total))
                    builder.store(found, total)

    def put(self, out: Any, more: Any, adds: Any, columns: Any, v: int, total: Any) -> None:
        """Writes one vector of sums, of which so many columns count, and what they are added to."""
        builder = self.builder
        target, source = self.vector(out, v), self.vector(more, v)
        whole = builder.icmp_signed(">=", columns, self.size((v + 1) * LANES))
        found = builder.load(total)
        with builder.if_else(whole) as (plain, part):
            with plain, builder.if_else(adds) as (both, alone):
                with both:
                    before = builder.load(source, align=4)
                    builder.store(builder.fadd(before, found), target, align=4)
                with alone:
                    builder.store(found, target, align=4)
            with part:
                mask = self.mask(builder.sub(columns, self.size(v * LANES)))
                asked = builder.and_(mask, self.spread(adds, mask.type))
                before = self.load(source, asked, self.all(0.0))
                found = builder.select(asked, builder.fadd(before, found), found)
                self.store(found, target, mask)


def _tile(height: Callable[[TileSizes], int], *, whole: bool) -> Any:
    """A function of compiled loops that makes a tile of a height.

    It takes the addresses of the left and the right panel, and how many numbers a line of them has;
    the address of the tile, and how far its rows are apart; the same of what is added, and 0 where
    nothing is; how many rows and columns of the tile there are; the address of what will be needed
    next, and how far that for one number is from that for the one before. whole: as many vectors of
    it as a row has come into the caches for each number, else one.
    """

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        left, right, depth, out, pitch, more, step, adds, rows, columns, ahead, apart = given
        sizes = tile_sizes()
        tile = _Tile(ir, numba, builder, height(sizes), sizes.vectors)
        left, right, ahead = (floats(ir, builder, one) for one in (left, right, ahead))
        tile.add_up(left, right, depth, ahead, apart, sizes.vectors if whole else 1)
        added = builder.icmp_signed("!=", adds, tile.size(0))
        for r, row in enumerate(tile.sums):
            with builder.if_then(builder.icmp_signed("<", tile.size(r), rows)):
                target = builder.gep(floats(ir, builder, out), [builder.mul(pitch, tile.size(r))])
                source = builder.gep(floats(ir, builder, more), [builder.mul(step, tile.size(r))])
                for v, total in enumerate(row):
                    tile.put(target, source, added, columns, v, total)

    return of_numbers(12, generate)


# Of large products, of which several follow each other by one right panel; and of few rows, where
# right panels come from memory one after the other.
high = _tile(lambda sizes: sizes.height, whole=False)
middle, low = (_tile(lambda sizes, n=n: sizes.low[n], whole=True) for n in range(2))  # type: ignore[misc]
