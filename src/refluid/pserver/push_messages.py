"""Gradients as the arrays of a message, and back."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from torch import Tensor

from refluid.pserver.applying import Push, Rows
from refluid.pserver.messages import MalformedMessage, MessageFlag, NamedArray, TableMessage

# A table's ids and rows in a push are two arrays, named so.
IDS, ROWS = "ids:", "rows:"
# Ids whose rows are to be answered once the push is applied, by their table.
WANTED = "wanted:"


def read_push(message: TableMessage) -> Push:
    """The gradients in a message. MalformedMessage where ids and rows don't go together."""
    dense: dict[str, Tensor] = {}
    ids: dict[str, Tensor] = {}
    rows: dict[str, Tensor] = {}
    steps = 1
    for name, array in message.arrays:
        if name.startswith(WANTED):
            continue
        value = torch.from_numpy(array)
        if name.startswith(IDS):
            ids[name.removeprefix(IDS)] = value
        elif name.startswith(ROWS):
            rows[name.removeprefix(ROWS)] = value
        elif name == "steps":
            steps = _steps(value)
        else:
            dense[name] = value
    if ids.keys() != rows.keys():
        raise MalformedMessage("a push has ids and rows of each table")
    sparse: dict[str, Rows] = {name: (ids[name], rows[name]) for name in ids}
    return Push(dense, sparse, steps, bool(message.flags & MessageFlag.DELTA))


def steps_array(steps: int) -> list[NamedArray]:
    """Says how many batches a push has, unless it is one."""
    return [] if steps == 1 else [("steps", np.array([steps]))]


def wanted_of(message: TableMessage) -> Iterator[tuple[str, Tensor]]:
    """Tables, and the ids whose rows are wanted once a push is applied. MalformedMessage."""
    for name, ids in message.arrays:
        if name.startswith(WANTED):
            if ids.dtype != np.int64 or ids.ndim != 1:
                raise MalformedMessage(f"ids of table {name.removeprefix(WANTED)} are int64 [n]")
            yield name.removeprefix(WANTED), torch.from_numpy(ids)


def _steps(value: Tensor) -> int:
    if value.dtype != torch.int64 or value.numel() != 1 or not 0 <= value.item() <= 10**6:
        raise MalformedMessage("steps are one int64")
    return int(value.item())
