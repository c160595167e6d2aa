"""Tables and parameters as a whole, asked of a server or given to it. Its lock is held around."""

from __future__ import annotations

from refluid.pserver.applying import ServedTables
from refluid.pserver.messages import Kind, MalformedMessage, TableMessage, named

_MOST_EXPORTED = 2**20


def export_rows(tables: ServedTables, message: TableMessage) -> TableMessage:
    """Some rows of a table, or all variables that are no rows where no table is named."""
    asked = message.values()
    if asked.get("table") is None:
        state = [(name, array.copy()) for name, array in named(tables.dense.state())]
        return TableMessage(Kind.ANSWER, arrays=state)
    start, count = asked.get("start"), asked.get("rows")
    if not isinstance(start, int) or not isinstance(count, int) or start < 0 or count < 1:
        raise MalformedMessage("an export says where it starts and how many rows it wants")
    ids, kept = tables.table(str(asked.get("table"))).chunk(start, min(count, _MOST_EXPORTED))
    return TableMessage(Kind.ANSWER, arrays=[("ids", ids.numpy()), *named(kept)])


def import_rows(tables: ServedTables, message: TableMessage) -> None:
    """Rows of a table, or whole slices where no table is named."""
    asked = message.values()
    given = {name: value for name, value in message.tensors() if name != "json"}
    tables.put(asked.get("table"), given, forget=asked.get("forget") is True)
