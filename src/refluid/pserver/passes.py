"""Passes over the data: where one ends, tables forget rows that weren't updated for some."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from refluid.pserver.members import Member
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage, text_array
from refluid.pserver.sparse_table import SparseTable
from refluid.pserver.table_client import TableClient


def end_pass(client: TableClient, passes: int | None = None) -> int:
    """Ends a pass on all servers; how many rows they forgot. passes: as of `SparseTable`."""
    told = [text_array({"passes": passes})]
    answers = client.ask_all(Kind.END_PASS, sequence=secrets.randbits(62) | 1, arrays=told)
    return sum(int(answer.values()["forgotten"]) for answer in answers.values())


def end_pass_once(
    tables: Mapping[str, SparseTable],
    member: Member,
    message: TableMessage,
    accepted: Callable[[TableMessage], None],
) -> TableMessage:
    """Ends a pass of a server's tables, unless the same call came before."""
    passes, forgotten = message.values().get("passes"), 0
    if passes is not None and (not isinstance(passes, int) or passes < 1):
        raise MalformedMessage("rows are forgotten after one pass or more")
    if message.sequence != member.ended:
        forgotten = sum(table.end_pass(passes) for table in tables.values())
        member.ended = message.sequence
        accepted(message)
    return TableMessage(Kind.ANSWER, arrays=[text_array({"forgotten": forgotten})])
