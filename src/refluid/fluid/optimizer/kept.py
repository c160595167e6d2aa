"""Optimizers of one operator per parameter, which keeps some values of the parameter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from refluid.build import apply
from refluid.fluid.optimizer.base import Optimizer
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable


class KeepingOptimizer(Optimizer):
    """An optimizer told by a table: `kept` maps slots of its operator to kinds of accumulators.

    uses_rate: whether the operator has a learning rate.
    """

    kept: ClassVar[Mapping[str, str]] = {}
    uses_rate: ClassVar[bool] = True

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        """Attributes of the operator that updates `param`."""
        return {}

    def _start(self, slot: str, param: Parameter) -> Mapping[str, Any]:
        """Options of `_add_accumulator` for one slot."""
        return {}

    def _tensors(self) -> Mapping[str, Variable]:
        """Further inputs of the operator."""
        return {}

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        for param in parameters:
            for slot, kind in self.kept.items():
                self._add_accumulator(kind, param, **self._start(slot, param))

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        param, grad = param_and_grad
        kept = {slot: self._get_accumulator(kind, param) for slot, kind in self.kept.items()}
        rate = {"LearningRate": self._create_param_lr(param_and_grad)} if self.uses_rate else {}
        inputs = {"Param": param, "Grad": grad, **rate, **kept, **self._tensors()}
        op: Operator = apply(self.type, inputs, attrs=self._attributes(param), block=block)
        return op
