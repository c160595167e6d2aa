"""The programs that replicas run: the user's, after all passes that a strategy asks for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from refluid.core.places import Place
from refluid.engine.exchanging import replica_programs
from refluid.engine.fusing import fuse
from refluid.engine.strategy import ReduceStrategy, Strategy
from refluid.ir.program import Program
from refluid.passes.early_updates import early_updates
from refluid.passes.half_on_cpu import half_for
from refluid.passes.recompute_activations import recompute_activations
from refluid.passes.sync_batch_norm import sync_batch_norm

_KEPT = 64


class ReplicaRewriting:
    """Makes the programs of all replicas, and keeps those it made last.

    threads: of each replica.
    """

    def __init__(
        self,
        program: Program,
        strategy: Strategy,
        places: Sequence[Place],
        loss: str | None,
        threads: int,
    ) -> None:
        self._program, self._strategy, self._places = program, strategy, places
        self._loss, self._threads = loss, threads
        self._made: OrderedDict[Any, list[Program]] = OrderedDict()

    @property
    def sharing(self) -> bool:
        """Whether all replicas share the parameters."""
        reduce = self._strategy.reduce_strategy == ReduceStrategy.Reduce and len(self._places) > 1
        return reduce and all(place.device.type == "cpu" for place in self._places)

    def programs(
        self, kept: tuple[str, ...], watched: bool, optimize: bool, *, owning: bool = True
    ) -> list[Program]:
        """The program of each replica, in which the `kept` variables are computed.

        watched: with the operators that the user wrote. optimize: needs less memory. owning: in
        Reduce mode each replica makes the updates of its own parameters only.
        """
        key = self._program.change_count, kept, watched, optimize, owning
        if key not in self._made:
            made = self._make(kept, watched, optimize, owning)
            programs = zip(made, self._places, strict=False)
            self._made[key] = [half_for(one, place.device) for one, place in programs]
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return self._made[key]

    def _make(
        self, kept: tuple[str, ...], watched: bool, optimize: bool, owning: bool
    ) -> list[Program]:
        first = not self._made
        synchronised = self._strategy.sync_batch_norm and len(self._places) > 1
        program = sync_batch_norm(self._program) if synchronised else self._program
        fused = fuse(program, self._strategy, kept, first=first, as_written=watched)
        made = replica_programs(
            fused,
            self._strategy,
            self._loss,
            len(self._places),
            sharing=self.sharing,
            first=first,
            owning=owning,
        )
        if optimize:
            made = [recompute_activations(one, kept) for one in made]
        return [early_updates(one) for one in made] if self._updates_early else made

    @property
    def _updates_early(self) -> bool:
        """Whether updates needn't wait for all gradients."""
        waits = self._threads > 1 and self._strategy.enable_backward_optimizer_op_deps
        return self._strategy.memory_optimize is not False and not waits
