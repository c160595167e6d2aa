"""GradientMergeOptimizer: another optimizer, which updates once every k runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from refluid.engine.pipeline import build
from refluid.engine.setting import Setting
from refluid.fluid.optimizer.base import ParamGrad
from refluid.fluid.optimizer.stepping import goes_around
from refluid.ir.defaults import default_startup_program
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.passes.gradient_merge import GradientMerge


class GradientMergeOptimizer:
    """Batch merge: gradients of `k_steps` runs are added up, then parameters are updated once.

    Runs on k small batches train as one run on all of them would, in the memory of one small
    batch; batch normalisation still sees small ones. Clipping, decay, loss scaling and the
    learning-rate schedule act once per update, and replicas exchange gradients once.

    inner_optimizer: updates the parameters; also a RecomputeOptimizer or one made by
    `mixed_precision.decorate`. k_steps: a whole number, at least 1; ValueError else.
    avg: the mean of the k gradients, as of one big batch with a mean loss; else their sum.

    Sparse gradients are added up in a dense tensor of the parameter's size.
    """

    def __init__(self, inner_optimizer: Any, k_steps: int = 1, avg: bool = True) -> None:
        goes_around("GradientMergeOptimizer", inner_optimizer, "backward")
        self.inner_optimizer = inner_optimizer
        self._merge = GradientMerge(k_steps, avg)
        self.type = "gradient_merge"

    def minimize(
        self,
        loss: Variable,
        startup_program: Program | None = None,
        parameter_list: Sequence[Parameter | str] | None = None,
        no_grad_set: Iterable[Variable | str] | None = None,
    ) -> tuple[list[Operator], list[ParamGrad]]:
        """As the inner optimizer's; the updates run in a branch that every k-th run takes.

        Returns the branch's operators and the (parameter, gradient of one run) pairs.
        """
        _, pairs = self.inner_optimizer.minimize(loss, startup_program, parameter_list, no_grad_set)
        startup = default_startup_program() if startup_program is None else startup_program
        reports = build(loss.block.program, Setting(merge=replace(self._merge, startup=startup)))
        return reports["gradient_merge"].updates, pairs
