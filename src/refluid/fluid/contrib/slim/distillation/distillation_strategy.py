"""`DistillationStrategy`: for some epochs a student is trained together with its teachers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core import names
from refluid.fluid.contrib.slim.core.strategy import Strategy

__all__ = ["DistillationStrategy"]


class DistillationStrategy(Strategy):
    """From `start_epoch` to before `end_epoch` the losses of all distillers are minimised too.

    The teachers are the `teacher_programs` of the Compressor, whose `distiller_optimizer` (or
    `train_optimizer`) trains meanwhile; then the student goes on alone.
    """

    def __init__(
        self, distillers: Sequence[Any] | None = None, start_epoch: int = 0, end_epoch: int = 0
    ) -> None:
        super().__init__(start_epoch, end_epoch)
        self.distillers = list(distillers or [])
        self._alone: Any = None

    def restore_from_checkpoint(self, context: Any) -> None:
        if self.start_epoch < context.epoch_id < self.end_epoch:
            self._begin(context)

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id == self.start_epoch:
            self._begin(context)

    def on_epoch_end(self, context: Any) -> None:
        if context.epoch_id == self.end_epoch - 1 and self._alone is not None:
            context.optimize_graph, self._alone = self._alone, None
            context.changed()

    def _begin(self, context: Any) -> None:
        optimizer = context.distiller_optimizer or context.train_optimizer
        if not context.teacher_graphs or optimizer is None:
            raise ValueError(
                "distillation needs teacher_programs and a distiller_optimizer, which the "
                "Compressor takes, and a train_program without gradients"
            )
        graph = context.train_graph.clone()
        for teacher in context.teacher_graphs:
            graph.merge(teacher)
        self._alone = context.optimize_graph
        with names.guard("distillation_"):  # names of the graph's own variables may count anew
            for distiller in self.distillers:
                graph = distiller.distiller_loss(graph)
            made = graph.get_optimize_graph(optimizer, context.place, context.scope)
        context.optimize_graph = made
        context.changed()
