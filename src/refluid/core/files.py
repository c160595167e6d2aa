"""Whole files of tensors: read with nothing left over, written so that no reader sees a part.

How files are put in place, several at once where they belong together, is `refluid.core.writing`.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Container, Sequence

from refluid.core.codec import Buffer, decode_lod_tensor, decode_selected_rows
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.core.selected_rows import SelectedRows

PathLike = str | os.PathLike[str]


def decode_file(path: PathLike) -> LoDTensor:
    """The one LoDTensor of a file.

    Raises EnforceNotMet if the file is missing, truncated, damaged or has bytes left over.
    """
    data = map_file(path)
    value, end = decode_lod_tensor(data, 0, str(path))
    check_end(data, end, path)
    return value


def decode_selected_rows_file(path: PathLike) -> SelectedRows:
    """The one SelectedRows of a file; errors as for `decode_file`."""
    data = map_file(path)
    value, end = decode_selected_rows(data, 0, str(path))
    check_end(data, end, path)
    return value


def decode_combined_file(
    path: PathLike, names: Sequence[str], rows: Container[str] = ()
) -> dict[str, LoDTensor | SelectedRows]:
    """The values of a combined file, which holds no names: they must be given in its order.

    (Fluid's order is by name.) rows: which of them are SelectedRows, others are LoDTensors. Errors
    as for `decode_file`, naming the variable too.
    """
    return decode_combined(map_file(path), names, path, rows)


def decode_combined(
    data: Buffer, names: Sequence[str], path: PathLike, rows: Container[str] = ()
) -> dict[str, LoDTensor | SelectedRows]:
    """As `decode_combined_file`, of its bytes. path: what errors call them."""
    end = 0
    values: dict[str, LoDTensor | SelectedRows] = {}
    for name in names:
        decode = decode_selected_rows if name in rows else decode_lod_tensor
        values[name], end = decode(data, end, f"{path} (variable {name})")
    check_end(data, end, path)
    return values


def map_file(path: PathLike) -> Buffer:
    """The bytes of a file without reading them all; EnforceNotMet if it cannot be opened."""
    try:
        with open(path, "rb") as file:
            empty = os.fstat(file.fileno()).st_size == 0
            # Mapped, not read: what is decoded from it is the only copy in memory.
            return (
                b"" if empty else memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
            )
    except (OSError, ValueError) as error:  # ValueError: no file can have this name
        reason = getattr(error, "strerror", None) or error
        raise EnforceNotMet(f"{path}: cannot be opened: {reason}") from error


def check_end(data: Buffer, end: int, path: PathLike) -> None:
    """Raises EnforceNotMet if `data` goes on after `end`."""
    if end != len(data):
        raise EnforceNotMet(
            f"{path}: {len(data) - end} bytes follow after the last value, which ends at byte "
            f"{end} of {len(data)}: more variables were saved in this file than are loaded"
        )
