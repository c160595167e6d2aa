"""`sparse_embedding`: rows of a table that parameter servers hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.functions.nn.embedding import look_up
from refluid.ir.variable import Variable
from refluid.paddle.distributed.entry_attr import EntryAttr

_CLASSES = ("CommonSparseTable", "SSDSparseTable", "MemorySparseTable")


def sparse_embedding(
    input: Variable,
    size: Sequence[int],
    padding_idx: int | None = None,
    is_test: bool = False,
    entry: EntryAttr | None = None,
    table_class: str = "MemorySparseTable",
    param_attr: Any = None,
    dtype: Any = "float32",
    slot: int | None = None,
) -> Variable:
    """Rows (..., width) of the int64 ids (..., 1), of any size where servers hold the table.

    entry: which ids get a row: all unless given. table_class: SSDSparseTable is on disk, the others
    in memory unless the servers have a folder (docs/pserver.md). Without servers it is an
    embedding of `size`. ValueError for another entry or class.
    """
    if table_class not in _CLASSES:
        raise ValueError(f"table_class must be in [{', '.join(_CLASSES)}]")
    if entry is not None and not isinstance(entry, EntryAttr):
        raise ValueError(
            "entry must be instance in [paddle.distributed.ProbabilityEntry, "
            "paddle.distributed.CountFilterEntry, paddle.distributed.ShowClickEntry]"
        )
    given = {
        "input": input,
        "size": size,
        "is_sparse": True,
        "is_distributed": True,
        "padding_idx": padding_idx,
        "param_attr": param_attr,
        "dtype": dtype,
    }
    asked = "none" if entry is None else entry._to_attr()
    return look_up("lookup_table", given, {"entry": asked, "table_class": table_class})
