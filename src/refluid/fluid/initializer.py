"""Initializers: the operators of the startup program that give variables their first values.

Each is called with a variable and the block to write to, and puts its operator at the front:
what is created last is initialised first. A seed of 0 is the startup program's `random_seed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid.build import Blocks, apply, backend
from refluid.build.constants import value_attributes
from refluid.core import names
from refluid.core.causes import guard
from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program, default_startup_program
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

__all__ = [
    "MSRA",
    "Bilinear",
    "BilinearInitializer",
    "Constant",
    "ConstantInitializer",
    "MSRAInitializer",
    "Normal",
    "NormalInitializer",
    "NumpyArrayInitializer",
    "TruncatedNormal",
    "TruncatedNormalInitializer",
    "Uniform",
    "UniformInitializer",
    "Xavier",
    "XavierInitializer",
]

_on_cpu = False
_HALF = (VarType.FP16, VarType.BF16)


@contextmanager
def init_on_cpu() -> Iterator[None]:
    """Constants initialised within the block are made in host memory."""
    global _on_cpu
    former, _on_cpu = _on_cpu, True
    try:
        yield
    finally:
        _on_cpu = former


def force_init_on_cpu() -> bool:
    """Whether constants are initialised in host memory."""
    return _on_cpu


class Initializer:
    """Base of all initializers."""

    def __call__(self, param: Variable, block: Block | None) -> Operator:
        """Puts the operator that initialises `param` at the front of `block`, or runs it."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__(param, block)")

    def _compute_fans(self, var: Variable) -> tuple[float, float]:
        """What initializers of users' own ask for."""
        return fans(var)


class ConstantInitializer(Initializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        self.value, self.force_cpu = value, force_cpu

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        attrs = {
            "shape": var.shape,
            "dtype": int(var.dtype),
            "value": float(self.value),
            "force_cpu": self.force_cpu or force_init_on_cpu(),
        }
        return _prepend("fill_constant", var, block, attrs)


class UniformInitializer(Initializer):
    """Uniform in [low, high); `diag_num` elements, `diag_step` apart, are `diag_val` instead."""

    def __init__(
        self,
        low: float = -1.0,
        high: float = 1.0,
        seed: int = 0,
        diag_num: int = 0,
        diag_step: int = 0,
        diag_val: float = 1.0,
    ) -> None:
        if high < low:
            raise ValueError(f"Uniform needs low <= high, not {low} and {high}")
        if diag_num > 0 and diag_step <= 0:
            raise ValueError(f"Uniform: diag_num={diag_num} needs a positive diag_step")
        self.low, self.high, self.seed = low, high, seed
        self.diagonal = {"diag_num": diag_num, "diag_step": diag_step, "diag_val": diag_val}

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        attrs = {"min": float(self.low), "max": float(self.high)} | self.diagonal
        return _draw("uniform_random", var, block, self.seed, attrs, inputs={})


class NormalInitializer(Initializer):
    """Normal distribution of mean `loc` and standard deviation `scale`."""

    op_type = "gaussian_random"

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        self.loc, self.scale, self.seed = loc, scale, seed

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        attrs = {"mean": float(self.loc), "std": float(self.scale)}
        return _draw(self.op_type, var, block, self.seed, attrs)


class TruncatedNormalInitializer(NormalInitializer):
    """As `Normal`, drawn again wherever further than two deviations from the mean."""

    op_type = "truncated_gaussian_random"


class _VarianceScaled(Initializer):
    """Uniform or normal of mean 0; the variance depends on how many inputs and outputs meet."""

    uniform: bool
    seed: int

    def variance(self, var: Variable) -> float:
        raise NotImplementedError

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        variance = self.variance(var)
        if self.uniform:
            limit = math.sqrt(3.0 * variance)
            return UniformInitializer(-limit, limit, self.seed)(var, block)
        return NormalInitializer(0.0, math.sqrt(variance), self.seed)(var, block)


class XavierInitializer(_VarianceScaled):
    """Glorot and Bengio (2010): the variance is 2 / (fan_in + fan_out)."""

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        fan_out: float | None = None,
        seed: int = 0,
    ) -> None:
        self.uniform, self.fan_in, self.fan_out, self.seed = uniform, fan_in, fan_out, seed

    def variance(self, var: Variable) -> float:
        fan_in, fan_out = fans(var)
        fan_in = fan_in if self.fan_in is None else self.fan_in
        fan_out = fan_out if self.fan_out is None else self.fan_out
        return 2.0 / (fan_in + fan_out)


class MSRAInitializer(_VarianceScaled):
    """He et al. (2015): the variance is 2 / fan_in."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def variance(self, var: Variable) -> float:
        return 2.0 / (fans(var)[0] if self.fan_in is None else self.fan_in)


class NumpyArrayInitializer(Initializer):
    """The given array. The program holds all its numbers: meant for small ones.

    Raises TypeError for what is no array, and for element types that a program can't hold.
    """

    def __init__(self, value: np.ndarray[Any, Any]) -> None:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"NumpyArrayInitializer takes an array, not {type(value).__name__}")
        self.value = value

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        attrs = value_attributes(self.value, var.dtype) | {"shape": list(self.value.shape)}
        kept = VarType(attrs["dtype"])  # a program holds floats in single precision
        return _prepend("assign_value", var, block, attrs, kind=kept)


class BilinearInitializer(Initializer):
    """The filter with which `conv2d_transpose` scales an image up by bilinear interpolation.

    The variable has shape (C_out, C_in, K, K), K being `2 * factor - factor % 2`.
    Raises ValueError for other shapes.
    """

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        shape = var.shape
        if len(shape) != 4 or shape[2] != shape[3]:
            raise ValueError(f"Bilinear needs a (C_out, C_in, K, K) variable, not {list(shape)}")
        size = shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        line = 1 - np.abs(np.arange(size) / factor - centre)
        weights = np.broadcast_to(np.outer(line, line).astype("float32"), shape)
        return NumpyArrayInitializer(weights)(var, block)


def fans(var: Variable) -> tuple[float, float]:
    """(fan_in, fan_out): of a matrix its sizes, of a filter its channels times its window."""
    shape = var.shape
    if len(shape) < 2:
        only = shape[0] if shape else 1
        return only, only
    if len(shape) == 2:
        return shape[0], shape[1]
    window = math.prod(shape[2:])
    return shape[1] * window, shape[0] * window


def _prepend(
    op_type: str,
    var: Variable,
    block: Block | None,
    attrs: Mapping[str, Any],
    inputs: Mapping[str, Any] | None = None,
    kind: VarType | None = None,
) -> Operator:
    """kind: what the operator gives, where that is cast to the variable's element type."""
    where, made = _where(var, block), var
    if kind is not None and kind != var.dtype:
        place = backend() if where is None else Blocks(where)
        name = names.generate(f"{var.name}_init.tmp")
        made = place.variable(name=name, shape=var.shape, dtype=kind, persistable=False)
        attrs = {**attrs, "dtype": int(kind)}
    op: Operator = apply(op_type, inputs, {"Out": [made]}, attrs, block=where, index=0)
    if made is not var:
        kinds = {"in_dtype": int(made.dtype), "out_dtype": int(var.dtype)}
        apply("cast", {"X": made}, {"Out": var}, kinds, block=where, index=1)
    made.stop_gradient = var.stop_gradient = True
    return op


def _where(var: Variable, block: Block | None) -> Block | None:
    """The block that the operator goes to; None where it runs, as for all variables of no block."""
    return None if var.block is None else block


def _seed(block: Block | None) -> int:
    """The seed of the program; where operators run at once, of either default program."""
    if block is not None:
        return block.program.random_seed
    return default_main_program().random_seed or default_startup_program().random_seed


def _draw(
    op_type: str,
    var: Variable,
    block: Block | None,
    seed: int,
    attrs: dict[str, Any],
    inputs: Mapping[str, Any] | None = None,
) -> Operator:
    """A random operator; half precision is drawn in single and cast."""
    block = _where(var, block)
    seed = seed or _seed(block)
    own = attrs | {"shape": var.shape, "dtype": int(var.dtype), "seed": seed}
    kind = VarType.FP32 if var.dtype in _HALF else None
    return _prepend(op_type, var, block, own, inputs, kind)


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer

guard(__all__, globals(), checked=True)
