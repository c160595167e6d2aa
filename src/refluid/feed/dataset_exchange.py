"""Rows dealt anew among trainers: each is at exactly one of them before and after."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

import numpy as np

from refluid.comm.peers import Buffer, Peers
from refluid.core.errors import EnforceNotMet, PeerFailed
from refluid.core.joined_thread import JoinedThread
from refluid.feed.multislot_columns import Array, Columns, columns_parts, join_freeing


def exchange(columns: Columns, peers: Peers, seed: Sequence[int], at_once: int) -> Columns:
    """The rows that this trainer gets, in the order of where they come from.

    All trainers together have as many rows as before, and each as many as any other, give or take
    one; which trainer gets a row is drawn from the seed. at_once: rows of a message. Raises
    PeerFailed where a trainer goes away: nothing has changed then. EnforceNotMet where trainers
    have other slots.
    """
    everyone = peers.all_gather({"rows": columns.rows, "slots": _kinds(columns)})
    known = {str(one["slots"]) for one in everyone if one["rows"]}
    if len(known) > 1:
        raise EnforceNotMet(f"trainers can't exchange rows of different slots: {sorted(known)}")
    before = sum(one["rows"] for one in everyone[: peers.rank])
    dealt = _deal(columns.rows, before, peers.size, [*seed, peers.rank])
    found = _swap(columns, peers, dealt, at_once)
    found[peers.rank] = [_taken(columns, dealt[peers.rank])]
    parts = [columns_parts(part) for peer in range(peers.size) for part in found.pop(peer)]
    made = join_freeing([part for part in parts if part[2]] or parts[:1])
    _agree(peers, made.rows, sum(one["rows"] for one in everyone))
    return made


def _swap(
    columns: Columns, peers: Peers, dealt: Sequence[Array], at_once: int
) -> dict[int, list[Columns]]:
    """Sends each other trainer its rows, while a thread for each receives what it sends."""
    found: dict[int, list[Columns]] = {}
    errors: list[BaseException] = []

    def receive(peer: int) -> None:
        try:
            found[peer] = list(_receive(peers, peer, columns))
        except BaseException as error:
            errors.append(error)
            peers.close()  # wakes all others of this process

    threads = [
        JoinedThread(receive, peer, name=f"refluid exchange {peer}") for peer in peers.others
    ]
    try:
        for thread in threads:
            thread.start()
        _send(columns, peers, dealt, at_once)
        for thread in threads:
            thread.join()
    except BaseException as error:
        peers.close()
        for thread in threads:
            thread.join()
        raise (errors[0] if errors and isinstance(error, PeerFailed) else error) from None
    if errors:
        raise errors[0]
    return found


def _agree(peers: Peers, rows: int, wanted: int) -> None:
    """All have their rows: from here on each trainer goes on by itself."""
    total = sum(peers.all_gather(rows))
    if total != wanted:
        raise PeerFailed(f"{wanted} rows became {total} while trainers exchanged them")


def _deal(rows: int, before: int, size: int, seed: Sequence[int]) -> list[Array]:
    """Which rows each trainer gets: as cards are dealt, going on where the trainer before ended."""
    order = np.random.default_rng(list(seed)).permutation(rows)
    return [order[(trainer - before) % size :: size] for trainer in range(size)]


def _send(columns: Columns, peers: Peers, dealt: Sequence[Array], at_once: int) -> None:
    """Sends all rows, some to each trainer in turn; a message without rows is the last."""
    left = peers.others
    for start in count(0, at_once):
        for peer in list(left):
            rows = dealt[peer][start : start + at_once]
            peers.send(peer, _written(_taken(columns, rows)))
            if not len(rows):
                left.remove(peer)
        if not left:
            return


def _receive(peers: Peers, peer: int, like: Columns) -> Iterator[Columns]:
    """The rows of a trainer."""
    while (part := _read(peers.receive(peer), like)).rows:
        yield part


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


def _written(columns: Columns) -> list[Buffer]:
    """A message: rows, values of each slot, lengths of the rows in those that need them, values."""
    head = np.array([columns.rows, *(len(held) for held in columns.values)], np.int64)
    lengths = [np.diff(where) for where in columns.offsets if where is not None]
    arrays = [head, *lengths, *columns.values]
    return [np.ascontiguousarray(one).data.cast("B") for one in arrays if one.size]


def _read(data: bytearray, like: Columns) -> Columns:
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
