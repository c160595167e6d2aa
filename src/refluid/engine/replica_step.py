"""One step of all replicas: batched where that is possible, else each in its thread."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

from torch import Tensor

from refluid.core.offsets import Levels
from refluid.core.scope import Scope
from refluid.engine.replica_scopes import updates_variables
from refluid.ir.program import Program
from refluid.runtime.batched.replicas import BatchedReplicas
from refluid.runtime.batched.shared import Shared
from refluid.runtime.batched.together import ReplicaResults
from refluid.runtime.either_order import EitherOrder
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.replicas import Replicas


class ReplicaStep:
    """plans: of the replicas, by rank. batched: makes one step of them, where that can be."""

    def __init__(
        self,
        program: Program,
        plans: Sequence[Plan | EitherOrder],
        batched: BatchedReplicas | None,
        replicas: Replicas,
        held: Shared,
    ) -> None:
        self.plans, self.batched = plans, batched
        self._program, self._replicas, self._held = program, replicas, held

    def run(
        self,
        scopes: Sequence[Scope],
        feeds: Sequence[Sequence[Tensor]],
        lods: Sequence[Sequence[Levels]],
    ) -> ReplicaResults:
        """For each fetch all replicas' values, by rank."""

        def step(rank: int) -> list[Fetched]:
            return self.plans[rank].run(scopes[rank], feeds[rank], lods[rank])

        found = self.batched.run(feeds) if self.batched is not None else None
        if found is not None:
            return found
        if len(self.plans) == 1:
            return [[fetched] for fetched in step(0)]
        if self._held and self._updates:
            self._held.separate()
        return list(zip(*self._replicas.run(step), strict=True))

    @property
    def is_batched(self) -> bool:
        """Whether there are batched steps."""
        return self.batched is not None and self.batched.is_used

    def run_whole(self, feeds: Sequence[Tensor]) -> ReplicaResults | None:
        """A batched step with tensors of the rows of all replicas; None where none fits."""
        return None if self.batched is None else self.batched.run_whole(feeds)

    @cached_property
    def _updates(self) -> bool:
        return updates_variables(self._program)
