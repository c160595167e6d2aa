"""Rows dealt anew among trainers: each is at exactly one of them before and after."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.values import gather_values
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.feed.multislot.columns import Array, Columns, columns_parts, join_freeing


def exchange(columns: Columns, comm: Communicator, seed: Sequence[int], at_once: int) -> Columns:
    """The rows that this trainer gets, in the order of where they come from.

    All trainers together have as many rows as before, and each as many as any other, give or take
    one; which trainer gets a row is drawn from the seed. at_once: rows of a message. Raises
    PeerFailed where a trainer goes away: nothing has changed then. EnforceNotMet where trainers
    have other slots.
    """
    everyone = gather_values(comm, {"rows": columns.rows, "slots": _kinds(columns)})
    known = {str(one["slots"]) for one in everyone if one["rows"]}
    if len(known) > 1:
        raise EnforceNotMet(f"trainers can't exchange rows of different slots: {sorted(known)}")
    held = [one["rows"] for one in everyone]
    dealt = _deal(columns.rows, sum(held[: comm.rank]), comm.size, [*seed, comm.rank])
    found = _swap(columns, comm, dealt, at_once, -(-max(held) // comm.size))
    found[comm.rank] = [_taken(columns, dealt[comm.rank])]
    parts = [columns_parts(part) for peer in range(comm.size) for part in found.pop(peer)]
    made = join_freeing([part for part in parts if part[2]] or parts[:1])
    total = sum(gather_values(comm, made.rows))  # from here on each trainer goes on by itself
    if total != sum(held):
        raise PeerFailed(f"{sum(held)} rows became {total} while trainers exchanged them")
    return made


def _swap(
    columns: Columns, comm: Communicator, dealt: Sequence[Array], at_once: int, most: int
) -> dict[int, list[Columns]]:
    """The rows from each other trainer, some of each at a time; most: that one has for another."""
    found: dict[int, list[Columns]] = {peer: [] for peer in range(comm.size)}
    for start in range(0, most, at_once):
        chosen = [rows[start : start + at_once] for rows in dealt]
        chosen[comm.rank] = chosen[comm.rank][:0]
        coming = comm.all_to_all([_written(_taken(columns, rows)) for rows in chosen])
        for peer, data in enumerate(coming):
            part = _read(data.numpy(), columns)
            if part.rows:
                found[peer].append(part)
    return found


def _deal(rows: int, before: int, size: int, seed: Sequence[int]) -> list[Array]:
    """Which rows each trainer gets: as cards are dealt, going on where the trainer before ended."""
    order = np.random.default_rng(list(seed)).permutation(rows)
    return [order[(trainer - before) % size :: size] for trainer in range(size)]


def _taken(columns: Columns, rows: Array) -> Columns:
    if not len(rows):
        empty = [held[:0] for held in columns.values]
        return Columns(
            0,
            tuple(empty),
            tuple(None if one is None else np.zeros(1, np.int64) for one in columns.offsets),
        )
    return columns.take([rows] * len(columns.values))


def _kinds(columns: Columns) -> list[Any]:
    """Per slot its element type, and how many values each row has: 0 for any number."""
    return [
        [str(held.dtype), 0 if where is not None else len(held) // max(columns.rows, 1)]
        for held, where in zip(columns.values, columns.offsets, strict=True)
    ]


def _written(columns: Columns) -> Tensor:
    """A message: rows, values of each slot, lengths of the rows in those that need them, values."""
    head = np.array([columns.rows, *(len(held) for held in columns.values)], np.int64)
    lengths = [np.diff(where) for where in columns.offsets if where is not None]
    arrays = [head, *lengths, *columns.values]
    data = [np.ascontiguousarray(one).reshape(-1).view(np.uint8) for one in arrays if one.size]
    return torch.from_numpy(np.concatenate(data))


def _read(data: Array, like: Columns) -> Columns:
    slots = len(like.values)
    head = np.frombuffer(data, np.int64, slots + 1)
    rows, sizes = int(head[0]), head[1:].tolist()
    at = head.nbytes
    offsets: list[Array | None] = []
    for where in like.offsets:
        if where is None:
            offsets.append(None)
            continue
        made = np.zeros(rows + 1, np.int64)
        np.cumsum(np.frombuffer(data, np.int64, rows, at), out=made[1:])
        at += 8 * rows
        offsets.append(made)
    values = []
    for size, held in zip(sizes, like.values, strict=True):
        values.append(np.frombuffer(data, held.dtype, size, at))
        at += size * held.itemsize
    return Columns(rows, tuple(values), tuple(offsets))
