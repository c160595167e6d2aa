"""The programs that replicas run: the user's, after all passes that a strategy asks for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from refluid.core.places import Place
from refluid.engine.notices import announce, drawing
from refluid.engine.pipeline import Setting, rewrite
from refluid.engine.strategy import ReduceStrategy, Strategy
from refluid.ir.program import Program

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
            settings = [
                Setting(
                    self._strategy,
                    frozenset(kept),
                    place.device,
                    watched,
                    optimize,
                    self._threads,
                    self._loss,
                    len(self._places),
                    rank,
                    self.sharing,
                    owning,
                )
                for rank, place in enumerate(self._places)
            ]
            if self._made:
                made = rewrite(self._program, settings)
            else:
                made = rewrite(self._program, settings, drawing(self._strategy))
                announce(self._program, settings[0], made[0])
            self._made[key] = [one.program for one in made]
            if len(self._made) > _KEPT:
                self._made.popitem(last=False)
        return self._made[key]
