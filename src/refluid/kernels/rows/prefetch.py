"""Rows of a table asked for before they are read, for compiled loops over scattered rows."""

from __future__ import annotations

from typing import Any

from refluid.kernels.by_numba import first_element, intrinsic
from refluid.kernels.compiled import compiled

# So many rows ahead of the one in use: the time that memory takes, in rows.
AHEAD = 32
_LINE = 64


@intrinsic
def _prefetch(ir: Any, numba: Any) -> Any:
    """Asks for the cache line that is `offset` bytes after an array's first element."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        byte, number = ir.PointerType(ir.IntType(8)), ir.IntType(32)
        start = builder.bitcast(first_element(context, builder, signature, given), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = numba.cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch")
        # To be written, kept in all caches, data.
        place = builder.gep(start, [given[1]])
        builder.call(function, [place, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return lambda _typing, array, offset: (numba.types.void(array, offset), generate)


@compiled
def ask_for_row(table: Any, row: Any) -> None:
    """Starts to load row `row`, which must be there, of a contiguous [height, width] table."""
    # In bytes, for a division by the size of an element, per row, would take longer than the row.
    size = table.shape[1] * table.itemsize
    start = row * size
    for offset in range(0, size, _LINE):
        _prefetch(table, start + offset)
    _prefetch(table, start + size - 1)


@compiled
def ask_for_start(table: Any, row: Any, count: Any) -> None:
    """Starts to load the first `count` elements of such a row.

    Not what `ask_for_row` calls: a call within one counts references to the table, for each row.
    """
    size = count * table.itemsize
    start = row * table.shape[1] * table.itemsize
    for offset in range(0, size, _LINE):
        _prefetch(table, start + offset)
    _prefetch(table, start + size - 1)


@compiled
def ask_for(array: Any, place: Any) -> None:
    """Starts to load the element `place`, which must be there, of a contiguous array [n]."""
    _prefetch(array, place * array.itemsize)
