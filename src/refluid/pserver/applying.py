"""What a server does with pushes: each at once, or the mean of all trainers' as one."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from refluid.kernels.rows.ids import merge_ids
from refluid.pserver.dense_tables import DenseTables, mean_of
from refluid.pserver.messages import MalformedMessage
from refluid.pserver.refusals import CallRefused
from refluid.pserver.sparse_table import SparseTable

Rows = tuple[Tensor, Tensor]


@dataclass
class Push:
    """Gradients of a trainer: of slices by name, of tables ids and rows. steps: how many batches.

    delta: they are to be added as they are.
    """

    dense: Mapping[str, Tensor] = field(default_factory=dict)
    sparse: Mapping[str, Rows] = field(default_factory=dict)
    steps: int = 1
    delta: bool = False


class ServedTables:
    """All that a server holds."""

    def __init__(self, dense: DenseTables, sparse: Mapping[str, SparseTable]) -> None:
        self.dense, self.sparse = dense, dict(sparse)

    def table(self, name: str) -> SparseTable:
        """The table of that name; CallRefused where there is none."""
        found = self.sparse.get(name)
        if found is None:
            raise CallRefused(f"this server has no table {name!r}")
        return found

    def table_of(self, name: str, ids: Tensor) -> SparseTable:
        """The table of that name; CallRefused for none, MalformedMessage where these are no ids."""
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise MalformedMessage(f"ids of table {name} are int64 [n]")
        return self.table(name)

    def require(self, names: Iterable[str]) -> None:
        """CallRefused where one of the tables isn't here."""
        for name in names:
            self.table(name)

    def put(self, table: Any, given: Mapping[str, Tensor], *, forget: bool) -> None:
        """Sets rows of a table (`ids`, and each variable's), or slices where none is named.

        forget: the table has no other rows then. EnforceNotMet or CallRefused for what doesn't fit.
        """
        if table is None:
            self.dense.put(given)
            return
        ids = given.get("ids", torch.empty(0, dtype=torch.int64))
        found = self.table_of(str(table), ids)
        if forget:
            found.clear()
        found.put(ids, {name: value for name, value in given.items() if name != "ids"})

    def apply(self, push: Push) -> None:
        """Updates everything by a push that was checked."""
        if push.delta:
            self.dense.add(push.dense)
            for name, (ids, value) in push.sparse.items():
                self.table(name).add(ids, value)
            return
        self.dense.schedule(push.steps)
        self.dense.update(push.dense)
        for name, (ids, value) in push.sparse.items():
            self.table(name).update(ids, value, self.dense.value)

    def check(self, push: Push) -> None:
        """CallRefused or EnforceNotMet where a push doesn't fit the tables; nothing has changed."""
        for name, value in push.dense.items():
            self.dense.check(name, value)
        for name, (ids, value) in push.sparse.items():
            self.table(name).check(ids, value)


class Applying(Protocol):
    """When pushes are applied. The server's lock is held around each call.

    at_once: as they come, and nothing of them is needed afterwards.
    """

    rounds: int
    at_once: bool

    def take(self, trainer: int, sequence: int, push: Push) -> None:
        """A push that came; CallRefused, or EnforceNotMet, where it can't be applied."""

    def settle(self, awaited: frozenset[int]) -> list[tuple[int, int]]:
        """Applies what can be, given for whom to wait: (trainer, sequence) of each that was."""

    def holds(self, trainer: int) -> int:
        """The sequence of the push of a trainer that waits to be applied, 0 for none."""

    def forget(self, trainer: int) -> None:
        """Drops what waits of a trainer that began anew."""


class EachPush:
    """Each push as it comes."""

    at_once = True

    def __init__(self, tables: ServedTables) -> None:
        self._tables = tables
        self._done: list[tuple[int, int]] = []
        self.rounds = 0

    def take(self, trainer: int, sequence: int, push: Push) -> None:
        self._tables.apply(push)
        self._done.append((trainer, sequence))
        self.rounds += 1

    def settle(self, awaited: frozenset[int]) -> list[tuple[int, int]]:  # noqa: ARG002
        done, self._done = self._done, []
        return done

    def holds(self, trainer: int) -> int:  # noqa: ARG002
        return 0

    def forget(self, trainer: int) -> None:
        """Nothing waits."""


class MeanOfPushes:
    """One push of each trainer, then their mean: the next push of each begins a new round.

    A trainer that is no longer awaited is left out; what it pushed in the round still counts.
    """

    at_once = False

    def __init__(self, tables: ServedTables) -> None:
        self._tables = tables
        self._round: dict[int, tuple[int, Push]] = {}
        self.rounds = 0

    def take(self, trainer: int, sequence: int, push: Push) -> None:
        self._tables.check(push)
        held = self.holds(trainer)
        if held and held != sequence:
            raise CallRefused(
                f"trainer {trainer} pushed again before the others did: pushes {held} and "
                f"{sequence} are of one round"
            )
        self._round[trainer] = sequence, push

    def settle(self, awaited: frozenset[int]) -> list[tuple[int, int]]:
        if not self._round or not awaited <= self._round.keys():
            return []
        held = sorted(self._round.items())
        self._tables.apply(mean_push([push for _, (_, push) in held]))
        self._round.clear()
        self.rounds += 1
        return [(trainer, sequence) for trainer, (sequence, _) in held]

    def holds(self, trainer: int) -> int:
        return self._round[trainer][0] if trainer in self._round else 0

    def forget(self, trainer: int) -> None:
        self._round.pop(trainer, None)


def mean_push(pushes: Sequence[Push]) -> Push:
    """The mean of all pushes; who has no gradient for something counts as zero."""
    names = dict.fromkeys(name for one in pushes for name in one.dense)
    dense = {}
    for name in names:
        found = [one.dense[name] for one in pushes if name in one.dense]
        dense[name] = mean_of(found)
        if len(found) < len(pushes):
            dense[name] = dense[name] * (len(found) / len(pushes))
    sparse = {}
    for name in dict.fromkeys(name for one in pushes for name in one.sparse):
        parts = [one.sparse[name] for one in pushes if name in one.sparse]
        ids, value = torch.cat([ids for ids, _ in parts]), torch.cat([rows for _, rows in parts])
        if len(parts) > 1:
            ids, value = merge_ids(ids, value)
        sparse[name] = ids, value / len(pushes)
    return Push(dense, sparse, max(one.steps for one in pushes))
