"""Weight decay: operators that add a penalty's gradient to the gradients of parameters."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from refluid.build import apply
from refluid.core.causes import guard
from refluid.core.dtypes import VarType
from refluid.ir.ambient import name_scope
from refluid.ir.block import Block
from refluid.ir.variable import Parameter, Variable

__all__ = ["L1Decay", "L1DecayRegularizer", "L2Decay", "L2DecayRegularizer"]

ParamGrad = tuple[Parameter, Variable | None]
NEW_GRAD = "@NEWGRAD@"
_log = logging.getLogger(__name__)


class WeightDecayRegularizer:
    """Base of regularizers: called with a parameter, it appends what its penalty adds."""

    def __init__(self) -> None:
        """A regularizer without settings."""

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        """Appends operators to `block`; returns the variable to be added to `grad`."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError


class _Penalty(WeightDecayRegularizer):
    """A penalty whose gradient is a coefficient times a function of the parameter."""

    def __init__(self, regularization_coeff: float = 0.0) -> None:
        """regularization_coeff: the penalty's weight in the loss."""
        super().__init__()
        self._regularization_coeff = float(regularization_coeff)

    def _scale(self, source: Variable, target: Variable, block: Block) -> Variable:
        attrs = {"scale": self._regularization_coeff}
        apply("scale", {"X": source}, {"Out": target}, attrs, block=block)
        return target

    @staticmethod
    def _like(param: Parameter, block: Block) -> Variable:
        return block.create_var(dtype=param.dtype, shape=param.shape, lod_level=param.lod_level)


class L2DecayRegularizer(_Penalty):
    """Adds `coeff * param` to the gradient: the penalty is `0.5 * coeff * sum(param ** 2)`.

    A regularizer set on a parameter by ParamAttr goes before the optimizer's.
    """

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        return self._scale(param, self._like(param, block), block)

    def __str__(self) -> str:
        return f"L2Decay, regularization_coeff={self._regularization_coeff:f}"


class L1DecayRegularizer(_Penalty):
    """Adds `coeff * sign(param)` to the gradient: the penalty is `coeff * sum(|param|)`.

    A regularizer set on a parameter by ParamAttr goes before the optimizer's.
    """

    def __call__(self, param: Parameter, grad: Variable, block: Block) -> Variable:
        decay = self._like(param, block)
        apply("sign", {"X": param}, {"Out": decay}, block=block)
        return self._scale(decay, decay, block)

    def __str__(self) -> str:
        return f"L1Decay, regularization_coeff={self._regularization_coeff:f}"


def append_regularization_ops(
    parameters_and_grads: Sequence[ParamGrad],
    regularization: WeightDecayRegularizer | None = None,
) -> list[ParamGrad]:
    """Adds weight decay to gradients; returns the parameters with their new gradients.

    A parameter's own regularizer is used where it has one, else `regularization`; without
    either, or without a gradient, the pair stays as it is. A dense gradient is changed in
    place; a sparse one becomes dense.
    """
    decayed: list[ParamGrad] = []
    with name_scope("regularization"):
        if regularization is not None and any(
            param.regularizer is not None for param, _ in parameters_and_grads
        ):
            _log.info(
                "some parameters have a regularizer of their own (ParamAttr); "
                "the optimizer's %s applies to the others only",
                regularization,
            )
        for param, grad in parameters_and_grads:
            decay = param.regularizer if param.regularizer is not None else regularization
            if grad is None or decay is None:
                decayed.append((param, grad))
                continue
            with param.block.program.optimized_guard([param, grad]):
                decayed.append((param, _add_decay(param, grad, decay)))
    return decayed


def _add_decay(param: Parameter, grad: Variable, regularizer: WeightDecayRegularizer) -> Variable:
    block = grad.block
    decay = regularizer(param, grad, block)
    total = grad
    if grad.type == VarType.SELECTED_ROWS:
        total = block.create_var(
            name=grad.name + NEW_GRAD,
            dtype=param.dtype,
            shape=param.shape,
            lod_level=param.lod_level,
        )
    apply("sum", {"X": [grad, decay]}, {"Out": total}, block=block)
    return total


L1Decay = L1DecayRegularizer
L2Decay = L2DecayRegularizer

guard(__all__, globals(), checked=True)
