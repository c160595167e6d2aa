"""What servers answer to a trainer: rows put where they belong, and slices of dense parameters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor

from refluid.kernels.rows.dealing import KnownRows
from refluid.pserver.messages import MalformedMessage, MessageFlag, TableMessage
from refluid.pserver.push_messages import ROWS


class PushAnswers:
    """What servers answer to a push: slices of dense parameters, and `rows` by their tables."""

    def __init__(self, rows: Mapping[str, KnownRows]) -> None:
        self.rows = dict(rows)
        self._dense: dict[int, dict[str, Tensor]] = {}

    @property
    def dense(self) -> Iterable[dict[str, Tensor]]:
        """Of each server, by the slices' names."""
        return self._dense.values()

    def take(self, server: int, answer: TableMessage) -> None:
        """Takes what it needs of an answer, of which nothing is there afterwards."""
        if answer.flags & (MessageFlag.AGAIN | MessageFlag.PENDING):
            return
        put_rows(self.rows, server, answer, ROWS)
        slices = [one for one in answer.arrays if not one[0].startswith(ROWS)]
        self._dense[server] = {name: torch.from_numpy(array.copy()) for name, array in slices}


def put_rows(
    known: Mapping[str, KnownRows], server: int, answer: TableMessage, mark: str = ""
) -> None:
    """Puts the rows that a server gave, named by `mark` and their table, where they belong.

    MalformedMessage where they are none of the ids that it was asked for.
    """
    for table, one in known.items():
        rows = answer.array(mark + table)
        if not one.put(server, rows):
            raise MalformedMessage(
                f"server {server} gave {rows.dtype} rows {rows.shape} of other ids"
            )
