"""A tile of a product in compiled loops: some rows by one or two vectors of columns."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from refluid.kernels.panels.laying import floats, of_numbers
from refluid.kernels.processor import has_512_bits
from refluid.kernels.vectors import LANES


class TileSizes(NamedTuple):
    """The tiles that fill a processor's registers: the vectors of a row, and two heights."""

    vectors: int
    heights: tuple[int, int]

    @property
    def width(self) -> int:
        """How many columns a tile has."""
        return self.vectors * LANES


@cache
def tile_sizes() -> TileSizes:
    """Those for 16 registers of 256 bits, or for 32 of 512 bits where the processor has them."""
    return TileSizes(2, (12, 8)) if has_512_bits() else TileSizes(1, (6, 4))


class _Tile:
    """Writes LLVM's code of a tile: its sums stay in registers while they are made."""

    def __init__(self, ir: Any, numba: Any, builder: Any, rows: int, vectors: int) -> None:
        self.ir, self.utils, self.builder = ir, numba.cgutils, builder
        self.rows, self.vectors = rows, vectors
        self.word, self.size = ir.IntType(32), ir.IntType(64)
        self.lanes = ir.VectorType(ir.FloatType(), LANES)
        self.words = ir.VectorType(self.word, LANES)
        self.sums = [
            [self.utils.alloca_once(builder, self.lanes) for _ in range(vectors)]
            for _ in range(rows)
        ]

    def call(self, name: str, result: Any, *given: Any) -> Any:
        kind = self.ir.FunctionType(result, [one.type for one in given])
        function = self.utils.get_or_insert_function(self.builder.module, kind, name)
        return self.builder.call(function, given)

    def spread(self, value: Any, kind: Any) -> Any:
        """A value in all lanes."""
        empty = self.ir.Constant(kind, self.ir.Undefined)
        one = self.builder.insert_element(empty, value, self.word(0))
        order = self.ir.Constant(self.words, [0] * LANES)
        return self.builder.shuffle_vector(one, empty, order)

    def vector(self, begin: Any, number: int) -> Any:
        """The address of so many vectors behind another one."""
        place = self.builder.gep(begin, [self.size(number * LANES)])
        return self.builder.bitcast(place, self.lanes.as_pointer())

    def add_up(self, left: Any, right: Any, depth: Any) -> None:
        """The sums of products of the two panels, one number of each line after the other."""
        builder, fma = self.builder, f"llvm.fma.v{LANES}f32"
        zero = self.ir.Constant(self.lanes, [0.0] * LANES)
        for one in (one for row in self.sums for one in row):
            builder.store(zero, one)
        with self.utils.for_range(builder, depth) as loop:
            a = builder.gep(left, [builder.mul(loop.index, self.size(self.rows))])
            b = builder.gep(right, [builder.mul(loop.index, self.size(self.vectors * LANES))])
            factors = [builder.load(self.vector(b, v), align=4) for v in range(self.vectors)]
            for r, row in enumerate(self.sums):
                one = self.spread(builder.load(builder.gep(a, [self.size(r)])), self.lanes)
                for factor, total in zip(factors, row, strict=True):
                    found = self.call(fma, self.lanes, one, factor, builder.load(total))
                    builder.store(found, total)

    def put(self, out: Any, more: Any, adds: Any, columns: Any, v: int, total: Any) -> None:
        """Writes one vector of sums, of which so many columns count, and what they are added to."""
        builder = self.builder
        target, source = self.vector(out, v), self.vector(more, v)
        whole = builder.icmp_signed(">=", columns, self.size((v + 1) * LANES))
        found, zero = builder.load(total), self.ir.Constant(self.lanes, [0.0] * LANES)
        with builder.if_else(whole) as (plain, part):
            with plain, builder.if_else(adds) as (both, alone):
                with both:
                    before = builder.load(source, align=4)
                    builder.store(builder.fadd(before, found), target, align=4)
                with alone:
                    builder.store(found, target, align=4)
            with part:
                left = builder.trunc(builder.sub(columns, self.size(v * LANES)), self.word)
                numbers = self.ir.Constant(self.words, [*range(LANES)])
                mask = builder.icmp_signed("<", numbers, self.spread(left, self.words))
                asked = builder.and_(mask, self.spread(adds, mask.type))
                load, store = (f"llvm.masked.{one}.v{LANES}f32.p0" for one in ("load", "store"))
                before = self.call(load, self.lanes, source, self.word(4), asked, zero)
                found = builder.select(asked, builder.fadd(before, found), found)
                nothing = self.ir.VoidType()
                self.call(store, nothing, found, target, self.word(4), mask)


def _tile(number: int) -> Any:
    """A function of compiled loops that makes a tile of that one of the heights.

    It takes the addresses of the left and the right panel, and how many numbers a line of them has;
    the address of the tile, and how far its rows are apart; the same of what is added, and 0 where
    nothing is; how many rows and columns of the tile there are.
    """

    def generate(ir: Any, numba: Any, builder: Any, given: list[Any]) -> None:
        left, right, depth, out, pitch, more, step, adds, rows, columns = given
        vectors, heights = tile_sizes()
        tile = _Tile(ir, numba, builder, heights[number], vectors)
        tile.add_up(floats(ir, builder, left), floats(ir, builder, right), depth)
        added = builder.icmp_signed("!=", adds, tile.size(0))
        for r, row in enumerate(tile.sums):
            with builder.if_then(builder.icmp_signed("<", tile.size(r), rows)):
                target = builder.gep(floats(ir, builder, out), [builder.mul(pitch, tile.size(r))])
                source = builder.gep(floats(ir, builder, more), [builder.mul(step, tile.size(r))])
                for v, total in enumerate(row):
                    tile.put(target, source, added, columns, v, total)

    return of_numbers(10, generate)


high, low = (_tile(number) for number in range(2))
