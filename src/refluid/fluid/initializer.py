"""Initializers: each appends the operator that fills a parameter to the startup program."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from refluid.core.dtypes import VarType
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable


class Initializer:
    """Called with a variable and the block to initialise it in."""

    def __call__(self, var: Variable, block: Block) -> Operator:
        raise NotImplementedError


def _seed(own: int, block: Block) -> int:
    return own or block.program.random_seed


def _fill(block: Block, var: Variable, op_type: str, **attrs: Any) -> Operator:
    inputs: Mapping[str, Any] | None = {} if op_type == "uniform_random" else None
    return block.prepend_op(
        type=op_type,
        inputs=inputs,
        outputs={"Out": [var]},
        attrs={"shape": list(var.shape), "dtype": int(var.dtype)} | attrs,
        stop_gradient=True,
    )


class ConstantInitializer(Initializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0, force_cpu: bool = False) -> None:
        self.value, self.force_cpu = value, force_cpu

    def __call__(self, var: Variable, block: Block) -> Operator:
        return _fill(block, var, "fill_constant", value=float(self.value), force_cpu=self.force_cpu)


class UniformInitializer(Initializer):
    """Uniform numbers of [low, high)."""

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
        self.low, self.high, self.seed = low, high, seed
        self.diag = {"diag_num": diag_num, "diag_step": diag_step, "diag_val": diag_val}

    def __call__(self, var: Variable, block: Block) -> Operator:
        seed = _seed(self.seed, block)
        return _fill(
            block, var, "uniform_random", min=self.low, max=self.high, seed=seed, **self.diag
        )


class NormalInitializer(Initializer):
    """Normal numbers of mean `loc` and standard deviation `scale`."""

    op_type = "gaussian_random"

    def __init__(self, loc: float = 0.0, scale: float = 1.0, seed: int = 0) -> None:
        self.loc, self.scale, self.seed = loc, scale, seed

    def __call__(self, var: Variable, block: Block) -> Operator:
        seed = _seed(self.seed, block)
        return _fill(block, var, self.op_type, mean=self.loc, std=self.scale, seed=seed)


class TruncatedNormalInitializer(NormalInitializer):
    """Normal numbers within two standard deviations of the mean."""

    op_type = "truncated_gaussian_random"


def fans(var: Variable) -> tuple[int, int]:
    """(fan in, fan out): how many inputs an output has, and the other way round."""
    shape = var.shape
    if len(shape) < 2:
        one = shape[0] if shape else 1
        return one, one
    if len(shape) == 2:
        return shape[0], shape[1]
    field = math.prod(shape[2:])
    return shape[1] * field, shape[0] * field


class XavierInitializer(Initializer):
    """Uniform or normal numbers of variance 2 / (fan_in + fan_out) (Glorot and Bengio 2010)."""

    def __init__(
        self,
        uniform: bool = True,
        fan_in: float | None = None,
        fan_out: float | None = None,
        seed: int = 0,
    ) -> None:
        self.uniform, self.fan_in, self.fan_out, self.seed = uniform, fan_in, fan_out, seed

    def __call__(self, var: Variable, block: Block) -> Operator:
        fan_in, fan_out = fans(var)
        total = (self.fan_in or fan_in) + (self.fan_out or fan_out)
        if self.uniform:
            limit = math.sqrt(6.0 / total)
            return UniformInitializer(-limit, limit, self.seed)(var, block)
        return NormalInitializer(0.0, math.sqrt(2.0 / total), self.seed)(var, block)


class MSRAInitializer(Initializer):
    """Uniform or normal numbers of variance 2 / fan_in (He et al. 2015)."""

    def __init__(self, uniform: bool = True, fan_in: float | None = None, seed: int = 0) -> None:
        self.uniform, self.fan_in, self.seed = uniform, fan_in, seed

    def __call__(self, var: Variable, block: Block) -> Operator:
        fan_in = self.fan_in or fans(var)[0]
        if self.uniform:
            limit = math.sqrt(6.0 / fan_in)
            return UniformInitializer(-limit, limit, self.seed)(var, block)
        return NormalInitializer(0.0, math.sqrt(2.0 / fan_in), self.seed)(var, block)


class NumpyArrayInitializer(Initializer):
    """The elements of an array of the variable's shape; float32 and int32 only, as in Fluid."""

    _VALUES = (("fp32_values", VarType.FP32, float), ("int32_values", VarType.INT32, int))

    def __init__(self, value: Any) -> None:
        if not isinstance(value, np.ndarray):
            raise TypeError(f"NumpyArrayInitializer takes an array, not {type(value).__name__}")
        self.value = value

    def __call__(self, var: Variable, block: Block) -> Operator:
        for name, kind, convert in self._VALUES:
            if var.dtype == kind:
                values = [convert(value) for value in self.value.ravel()]
                attrs = {"shape": list(self.value.shape), "dtype": int(kind), name: values}
                return block.prepend_op(
                    type="assign_value", outputs={"Out": [var]}, attrs=attrs, stop_gradient=True
                )
        raise ValueError("Unsupported dtype: NumpyArrayInitializer takes float32 and int32")


class BilinearInitializer(Initializer):
    """The filter of a transposed convolution that upsamples by bilinear interpolation.

    Raises ValueError unless the variable is (C, 1 or C, k, k).
    """

    def __call__(self, var: Variable, block: Block) -> Operator:
        if len(var.shape) != 4 or var.shape[2] != var.shape[3]:
            raise ValueError(f"Bilinear needs a square filter of four dimensions, not {var.shape}")
        size = var.shape[3]
        factor = math.ceil(size / 2.0)
        centre = (2 * factor - 1 - factor % 2) / (2.0 * factor)
        line = 1 - np.abs(np.arange(size) / factor - centre)
        weights = np.broadcast_to(np.outer(line, line), var.shape).astype("float32")
        return NumpyArrayInitializer(np.ascontiguousarray(weights))(var, block)


Constant = ConstantInitializer
Uniform = UniformInitializer
Normal = NormalInitializer
TruncatedNormal = TruncatedNormalInitializer
Xavier = XavierInitializer
MSRA = MSRAInitializer
Bilinear = BilinearInitializer
