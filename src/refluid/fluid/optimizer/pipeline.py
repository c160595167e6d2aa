"""PipelineOptimizer: the interface of pipelined training, run one section after the other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.optimizer.base import Optimizer, ParamGrad
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable


class PipelineOptimizer:
    """Trains a program that is cut into sections; here they run in turn, on one device.

    The numbers are those of the program without a pipeline: every batch passes all sections
    before the next one starts.

    optimizer: the one that updates parameters. cut_list: lists of variables at which the
    program is cut; 2 n - 1 sections (n forward, n - 1 backward) have as many places and
    concurrencies. queue_size, sync_steps, start_cpu_core_id: kept, of no effect here.

    Raises ValueError where the lists' lengths don't fit together.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        cut_list: Sequence[Sequence[Variable]] | None = None,
        place_list: Sequence[Any] | None = None,
        concurrency_list: Sequence[int] | None = None,
        queue_size: int = 30,
        sync_steps: int = 1,
        start_cpu_core_id: int = 0,
    ) -> None:
        self._optimizer = optimizer
        self.options = {
            "cut_list": list(cut_list or ()),
            "place_list": list(place_list or ()),
            "concurrency_list": list(concurrency_list or ()),
            "queue_size": queue_size,
            "sync_steps": sync_steps,
            "start_cpu_core_id": start_cpu_core_id,
        }
        given = {len(one) for one in (place_list, concurrency_list) if one is not None}
        if len(given) > 1:
            raise ValueError(
                f"place_list and concurrency_list have {sorted(given)} sections; "
                "each section needs one place and one concurrency"
            )

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Any = None,
    ) -> tuple[list[Operator], list[ParamGrad]]:
        """As the inner optimizer's `minimize`."""
        return self._optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
