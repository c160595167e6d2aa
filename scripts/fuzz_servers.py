#!/usr/bin/env python3
"""Damaged and strange messages for a server of tables: none ends it, none changes a table.

    python scripts/fuzz_servers.py --messages 200000 --seed 7

Half of them by strangers, half by one who knows a trainer's session. Each is a message of one of
all kinds with bytes changed, cut off, repeated or made up, or with other arrays, numbers and flags
than its kind has. Every other one comes as from a caller of the same host, through memory that it
shares with the server and in which others were before. After each the tables are compared with how
they began, bit for bit; what the trainer in good standing may change (pushes and rows that fit) is
put back.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import numpy as np

from refluid.core.errors import EnforceNotMet
from refluid.pserver.elastic import changing_server, conductor
from refluid.pserver.figures import FigureBook
from refluid.pserver.layout import JobLayout
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage, text_array
from refluid.pserver.near_memory import greeted
from refluid.pserver.packing import HEAD_BYTES, decode, encode
from refluid.pserver.push_messages import WANTED, steps_array
from refluid.pserver.refusals import CallRefused
from refluid.pserver.table_server import TableServer
from refluid.pserver.wire import NEAR, MessageSocket
from tests.pserver.tables import cluster, divided

REFUSALS = (MalformedMessage, CallRefused, EnforceNotMet)
# Rows that a pull or a push wants are made.
CHANGING = (Kind.PUSH, Kind.PULL, Kind.IMPORT, Kind.ROWS)
STRANGER, TRAINER = 77, 4711
_SHAPES = ((), (0,), (3,), (2, 4), (3, 1), (1, 2, 3), (0, 4))
_KINDS = ("f4", "f8", "i8", "i4", "u1", "f2")


def ordinary(job: int, session: int) -> list[TableMessage]:
    """One message of each kind as a trainer sends it, and some variants."""
    who: dict[str, Any] = {"trainer": 0, "session": session, "job": job}
    rows = [("ids:emb", np.array([1, 2])), ("rows:emb", np.ones((2, 4), "f4"))]
    push = [("w", np.ones((3, 1), "f4")), *rows, *steps_array(2)]
    ids = [("emb", np.array([1, 2, 3]))]
    export = text_array({"table": "emb", "start": 0, "rows": 10})
    given = [text_array({"table": "emb"}), ("ids", np.array([5])), ("emb", np.ones((1, 4), "f4"))]
    made = {kind: TableMessage(kind, **who) for kind in Kind}
    made[Kind.PUSH] = TableMessage(Kind.PUSH, **who, sequence=1, arrays=push)
    made[Kind.ROWS] = TableMessage(Kind.ROWS, **who, arrays=ids)
    made[Kind.EXPORT] = TableMessage(Kind.EXPORT, **who, arrays=[export])
    made[Kind.IMPORT] = TableMessage(Kind.IMPORT, **who, arrays=given)
    made[Kind.BEAT] = TableMessage(Kind.BEAT, **who, arrays=[FigureBook().array()])
    made[Kind.SAVE] = TableMessage(Kind.SAVE, **who, arrays=[text_array({"folder": "x"})])
    gather = [("value", np.ones(3))]
    made[Kind.GATHER] = TableMessage(Kind.GATHER, **who, sequence=1, arrays=gather)
    dense = [text_array({}), ("w", np.ones((3, 1), "f4"))]
    fill = [text_array({"table": "emb", "part": 0, "marks": {}}), *given[1:]]
    made[Kind.FILL] = TableMessage(Kind.FILL, **who, arrays=fill)
    steps = ({"step": "move"}, {"step": "commit"}, {"step": "freeze", "number": 0, "layout": {}})
    changes = [TableMessage(Kind.CHANGE, **who, arrays=[text_array(one)]) for one in steps]
    made[Kind.CONDUCT] = TableMessage(Kind.CONDUCT, **who, arrays=[text_array({"remove": 0})])
    wanted = [(f"{WANTED}emb", np.array([3, 4]))]
    ahead = [TableMessage(Kind.PUSH, **who, sequence=1, arrays=[*push, *wanted])]
    ahead += [TableMessage(Kind.PULL, **who, sequence=one, arrays=wanted) for one in (0, 1)]
    return [*made.values(), *changes, *ahead, TableMessage(Kind.IMPORT, **who, arrays=dense)]


def strange(message: TableMessage, draws: np.random.RandomState) -> TableMessage:
    """The message with something else than its kind has."""
    arrays, how = list(message.arrays), draws.randint(6)
    if how == 0:
        message.flags = int(draws.randint(64))
    elif how == 1:
        message.sequence = int(draws.choice([0, 1, 2, 5, 2**62]))
    elif how == 2:
        message.trainer = int(draws.choice([-1, 0, 1, 7, 2**31 - 1, -(2**31)]))
    elif how == 3 and arrays:
        arrays.pop(draws.randint(len(arrays)))
    else:
        shape = _SHAPES[draws.randint(len(_SHAPES))]
        value = np.zeros(shape, _KINDS[draws.randint(len(_KINDS))])
        if value.dtype.kind == "f" and draws.randint(3) == 0:
            value = value + np.array(np.nan, value.dtype)
        names = ["emb", "w", "ids:emb", "rows:emb", "wanted:emb", "wanted:", "ids", "json"]
        names += ["figures", "value", "steps", ""]
        name = names[draws.randint(len(names))]
        place = draws.randint(len(arrays) + 1)
        arrays[place : place + how % 2] = [(name, value)]
    message.arrays = arrays
    return message


def damaged(raw: bytes, draws: np.random.RandomState) -> bytes:
    """The bytes changed, cut off, repeated, or others."""
    found, how = bytearray(raw), draws.randint(6)
    if how == 0:
        found = found[: draws.randint(len(found))]
    elif how == 1:
        found += found[: draws.randint(64)]
    elif how == 2:
        found = bytearray(draws.bytes(draws.randint(300)))
    for _ in range(draws.randint(1, 6)):
        if found:
            found[draws.randint(min(len(found), 300))] = draws.randint(256)
    return bytes(found)


def messages(job: int, count: int, seed: int) -> Iterator[bytes]:
    """So many of them, the same for a seed."""
    draws = np.random.RandomState(seed)
    for number in range(count):
        known = ordinary(job, STRANGER if number % 2 else TRAINER)
        message = known[draws.randint(len(known))]
        if draws.randint(2):
            yield encode(strange(message, draws))
        else:
            yield damaged(encode(message), draws)


def contents(server: TableServer) -> dict[str, Any]:
    """All that the server's tables hold."""
    table = server.tables.sparse["emb"]
    ids, kept = table.chunk(0, table.rows)
    dense = {name: value.tolist() for name, value in server.tables.dense.state().items()}
    return {"ids": ids.tolist(), **{name: value.tolist() for name, value in kept.items()}, **dense}


def fuzz(count: int, seed: int) -> Counter[str]:
    """How many messages were answered, refused, or were fit to change something.

    AssertionError for one that a server fails of, or that changes what it may not.
    """
    told: Counter[str] = Counter()
    with cluster(divided()) as found, SharedWay() as way:
        server = found.servers[0]
        changing = changing_server(server, found.split.side, None)
        conductor(changing, None, _no_stand_in)
        server.hold = 0.0
        first = contents(server)
        arrived = {True: decode, False: way.arrived}
        for number, raw in enumerate(messages(server.job, count, seed)):
            server.members.known.clear()
            server.members._former.clear()
            server.members.enter(0, TRAINER)
            what = _one(server, raw, arrived[number % 4 < 2])
            told[what] += 1
            assert server._failure is None, (raw, server._failure)
            assert changing.change is None and not server.frozen, raw
            if what != "fit":
                assert contents(server) == first, (what, raw)
            else:
                table = server.tables.sparse["emb"]
                table.clear()
                server.tables.dense.value("w").zero_()
                server.gathers.clear()
    return told


def _no_stand_in(_number: int, _layout: JobLayout) -> Any:
    raise AssertionError("no server is lost")


class SharedWay(ExitStack):
    """A server's end of a connection within the host, and the other end in a stranger's hands."""

    def __init__(self) -> None:
        super().__init__()
        self._caller, served = map(self.enter_context, socket.socketpair(socket.AF_UNIX))
        self._server = MessageSocket.accepted(served, "127.0.0.1:1", None, 5.0)
        memory = greeted(self._caller)
        assert memory is not None, "this system shares no memory between processes"
        self._memory = memory

    def arrived(self, raw: bytes) -> TableMessage:
        """What the server makes of bytes whose head comes through the socket. MalformedMessage."""
        head = raw[:HEAD_BYTES].ljust(HEAD_BYTES, b"\0")
        room = self._memory.room(max(0, len(raw) - HEAD_BYTES))
        assert room is not None, "no message is made so long"
        room[:] = np.frombuffer(raw[HEAD_BYTES:], np.uint8)
        self._caller.sendall(NEAR + head[len(NEAR) :])
        return self._server.receive(time.monotonic() + 5.0)


def _one(server: TableServer, raw: bytes, arrived: Callable[[bytes], TableMessage]) -> str:
    """What became of it: `fit` where a trainer in good standing may change something by it."""
    try:
        message = arrived(raw)
        server.answer(message)
    except REFUSALS:
        return "refused"
    trusted = message.session == TRAINER and message.trainer == 0
    return "fit" if trusted and message.kind in CHANGING else "answered"


def main() -> None:
    given = argparse.ArgumentParser(description="Fuzz a server of tables")
    given.add_argument("--messages", type=int, default=200_000)
    given.add_argument("--seed", type=int, default=7)
    asked = given.parse_args()
    told = fuzz(asked.messages, asked.seed)
    print(", ".join(f"{value:,} {name}" for name, value in told.most_common()))


if __name__ == "__main__":
    main()
