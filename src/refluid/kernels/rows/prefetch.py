"""Rows of a table asked for before they are read, for compiled loops over scattered rows."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from refluid.kernels.compiled import compiled

# So many rows ahead of the one in use: the time that memory takes, in rows.
AHEAD = 32
_LINE = 64
_function_of: Any = cgutils.get_or_insert_function


def _line(_typing: Any, array: Any, offset: Any) -> Any:
    """Asks for the cache line that is `offset` bytes after the first element of an array."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, given[0]).data
        byte, number = ir.PointerType(ir.IntType(8)), ir.IntType(32)
        place = builder.gep(builder.bitcast(data, byte), [given[1]])
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = _function_of(builder.module, kind, "llvm.prefetch")
        # To be written, kept in all caches, data.
        builder.call(function, [place, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, offset), generate


_prefetch: Any = intrinsic(_line)


@compiled
def ask_for_row(table: Any, row: Any) -> None:
    """Starts to load row `row`, which must be there, of a contiguous [height, width] table."""
    # In bytes, for a division by the size of an element, per row, would take longer than the row.
    size = table.shape[1] * table.itemsize
    start = row * size
    for offset in range(0, size, _LINE):
        _prefetch(table, start + offset)
    _prefetch(table, start + size - 1)
