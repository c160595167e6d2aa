"""Momentum with deep gradient compression."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build import apply, op
from refluid.core.dtypes import VarType
from refluid.core.former import formerly
from refluid.fluid import layers
from refluid.fluid.clipping.gradients import GradientClipBase, GradientClipByNorm
from refluid.fluid.optimizer.base import Optimizer, ParamGrad, Rate
from refluid.fluid.regularizer import WeightDecayRegularizer, append_regularization_ops
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

_STEPS = "@DGC_STEP_COUNTER@"
# Smaller parameters cost more to sort than to send.
_SMALLEST = 16384


class DGCMomentumOptimizer(Optimizer):
    """Momentum that passes on only the largest part of each gradient (Lin et al., 2017).

    What is not passed waits, with its momentum, and is added to the gradients of later steps.
    Parameters of fewer than 16384 elements, sparse gradients and types other than float32 take
    plain momentum. With one trainer nothing is sent, but the updates are the same sparse ones.

    momentum, use_nesterov: as in `MomentumOptimizer`.
    rampup_begin_step: until this step gradients pass whole.
    rampup_step, sparsity: the share that waits; of several, each holds for as many of the
        rampup_step steps: with [0.75, 0.9, 0.99] and 30, 0.75 for 10 steps, and so on.
    num_trainers: how many trainers share a GradientClipByNorm, the only clip there is here.
    Other arguments as in `Optimizer`.

    Raises TypeError for another grad_clip, or one without num_trainers.
    """

    local_grad_clip_norm: float | None = None  # what Fluid 1.4 to 1.7 took for grad_clip

    @formerly("local_grad_clip_norm", keep=True)
    def __init__(
        self,
        learning_rate: Rate,
        momentum: float,
        rampup_begin_step: int,
        rampup_step: int = 1,
        sparsity: Sequence[float] = [0.999],
        parameter_list: Sequence[Parameter | str] | None = None,
        use_nesterov: bool = False,
        num_trainers: int | None = None,
        regularization: WeightDecayRegularizer | None = None,
        grad_clip: GradientClipBase | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(learning_rate, parameter_list, regularization, None, name)
        assert rampup_begin_step >= 0, "rampup_begin_step must >= 0"
        self.type = "dgc_momentum"
        self._momentum = momentum
        self._use_nesterov = bool(use_nesterov)
        self._begin = rampup_begin_step
        self._rampup_step = rampup_step
        self._sparsity = list(sparsity)
        if grad_clip is None and self.local_grad_clip_norm is not None:
            grad_clip = GradientClipByNorm(self.local_grad_clip_norm)
        self._clip_norm = _local_norm(grad_clip, num_trainers)

    def apply_gradients(self, params_grads: Sequence[ParamGrad]) -> list[Operator]:
        """Second part of `minimize`: clips, decays, compresses; then updates parameters."""
        self._steps = layers.autoincreased_step_counter(counter_name=_STEPS, begin=0)
        self._ranks = layers.create_global_var([1], 1.0, "float32", persistable=True)
        pairs = sorted(params_grads, key=lambda pair: pair[0].name)
        pairs = [(param, self._clipped_one(param, grad)) for param, grad in pairs]
        pairs = append_regularization_ops(pairs, self.regularization)
        return self._append_updates(pairs)

    def _clipped_one(self, param: Parameter, grad: Variable | None) -> Variable | None:
        if grad is None or self._clip_norm is None:
            return grad
        with param.block.program.optimized_guard([param, grad]), name_scope("gradient_clip"):
            if not self._compresses(param, grad):
                clipped = layers.clip_by_norm(grad, self._clip_norm)
                clipped.type = grad.type
                return clipped
            inputs = {"X": grad, "current_step": self._steps}
            attrs = {"max_norm": self._clip_norm, "rampup_begin_step": float(self._begin)}
            return op("dgc_clip_by_norm", inputs, attrs)

    def _compresses(self, param: Parameter, grad: Variable) -> bool:
        return (
            int(np.prod(param.shape)) >= _SMALLEST
            and grad.type != VarType.SELECTED_ROWS
            and param.dtype == VarType.FP32
        )

    def _create_accumulators(self, block: Block, parameters: Sequence[Parameter]) -> None:
        for param in parameters:
            self._add_accumulator("velocity", param)

    def _append_optimize_op(
        self, block: Block, param_and_grad: tuple[Parameter, Variable]
    ) -> Operator:
        param, grad = param_and_grad
        velocity = self._get_accumulator("velocity", param)
        rate = self._create_param_lr(param_and_grad)
        attrs: dict[str, Any] = {"mu": self._momentum, "use_nesterov": self._use_nesterov}
        inputs = {"Param": param, "Velocity": velocity, "LearningRate": rate}
        op_type, outputs = "momentum", {}
        if self._compresses(param, grad):
            grad = self._append_compression(block, param, grad)
            inputs |= {"current_step": self._steps, "nranks": self._ranks}
            attrs["rampup_begin_step"] = float(self._begin)
            op_type, outputs = self.type, {"Grad_out": grad}
        appended: Operator
        appended = apply(op_type, inputs | {"Grad": grad}, outputs, attrs, block=block)
        return appended

    def _append_compression(self, block: Block, param: Parameter, grad: Variable) -> Variable:
        kept = {
            "U": self._add_accumulator("_dgc_u_", param),
            "V": self._add_accumulator("_dgc_v_", param),
        }
        attrs = {
            "m": self._momentum,
            "use_nesterov": self._use_nesterov,
            "sparsity": self._sparsity,
            "rampup_begin_step": float(self._begin),
            "rampup_step": float(self._rampup_step),
        }
        count = block.create_var(dtype=VarType.FP32, shape=[1], stop_gradient=True)
        makes = {"Grad_out": None, "k": count, "U_out": kept["U"], "V_out": kept["V"]}
        inputs = {"Grad": grad, **kept, "current_step": self._steps}
        return op("dgc", inputs, attrs, makes)[0]


def _local_norm(clip: GradientClipBase | None, num_trainers: int | None) -> float | None:
    """The norm for the gradients of one trainer of several."""
    if clip is None:
        return None
    if not isinstance(clip, GradientClipByNorm):
        raise TypeError(
            "The type of grad_clip should be 'GradientClipByNorm', because "
            f"DGCMomentumOptimizer only supports that, not {type(clip).__name__}"
        )
    if not isinstance(num_trainers, int) or num_trainers < 1:
        raise TypeError(
            "DGCMomentumOptimizer with grad_clip needs num_trainers, a positive whole number, "
            f"not {num_trainers!r}"
        )
    return float(clip.clip_norm * num_trainers**-0.5)
