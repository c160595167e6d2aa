"""`paddle.nn.initializer`: how parameters start."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from refluid.core.dtypes import to_numpy
from refluid.fluid import initializer as fluid
from refluid.fluid.initializer import Initializer as Initializer
from refluid.fluid.initializer import fans
from refluid.fluid.layer_helper_base import default_initializers
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable

__all__ = [
    "Assign",
    "Bilinear",
    "Constant",
    "Dirac",
    "KaimingNormal",
    "KaimingUniform",
    "Normal",
    "Orthogonal",
    "TruncatedNormal",
    "Uniform",
    "XavierNormal",
    "XavierUniform",
    "calculate_gain",
    "set_global_initializer",
]


class Constant(fluid.ConstantInitializer):
    """Every element is `value`."""

    def __init__(self, value: float = 0.0) -> None:
        if value is None:
            raise ValueError("value must not be none.")
        super().__init__(value)


class Normal(fluid.NormalInitializer):
    """Normal distribution."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        super().__init__(mean, std)


class TruncatedNormal(fluid.TruncatedNormalInitializer):
    """Normal distribution, drawn again wherever further than two deviations from the mean."""

    def __init__(self, mean: float = 0.0, std: float = 1.0, name: str | None = None) -> None:
        super().__init__(mean, std)


class Uniform(fluid.UniformInitializer):
    """Uniform in [low, high)."""

    def __init__(self, low: float = -1.0, high: float = 1.0, name: str | None = None) -> None:
        super().__init__(low, high)


class XavierNormal(fluid.XavierInitializer):
    """Normal distribution of variance 2 / (fan_in + fan_out)."""

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(False, fan_in, fan_out)


class XavierUniform(fluid.XavierInitializer):
    """Uniform distribution of variance 2 / (fan_in + fan_out)."""

    def __init__(
        self, fan_in: float | None = None, fan_out: float | None = None, name: str | None = None
    ) -> None:
        super().__init__(True, fan_in, fan_out)


class _Kaiming(fluid.MSRAInitializer):
    """He et al. (2015): the variance is gain² / fan_in."""

    def __init__(
        self,
        is_uniform: bool,
        fan_in: float | None,
        negative_slope: float,
        nonlinearity: str,
    ) -> None:
        super().__init__(is_uniform, fan_in)
        self._gain = calculate_gain(nonlinearity, negative_slope)

    def variance(self, var: Variable) -> float:
        return self._gain**2 / (fans(var)[0] if self.fan_in is None else self.fan_in)


class KaimingNormal(_Kaiming):
    """Normal distribution of variance gain² / fan_in; the gain follows from the activation."""

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
    ) -> None:
        super().__init__(False, fan_in, negative_slope, nonlinearity)


class KaimingUniform(_Kaiming):
    """Uniform distribution of variance gain² / fan_in; the gain follows from the activation."""

    def __init__(
        self,
        fan_in: float | None = None,
        negative_slope: float = 0.0,
        nonlinearity: str = "relu",
    ) -> None:
        super().__init__(True, fan_in, negative_slope, nonlinearity)


class Assign(Initializer):
    """The given numbers: an array, a list, or a variable that has its value."""

    def __init__(self, value: Any, name: str | None = None) -> None:
        self._value = value.numpy() if isinstance(value, Variable) else np.asarray(value)

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        given = self._value
        wanted = tuple(var.shape)
        if given.shape != wanted and not (given.size == 1 and math.prod(wanted) == 1):
            raise ValueError(f"Assign has shape {list(given.shape)}, the parameter {list(wanted)}")
        array = np.ascontiguousarray(given.reshape(wanted), dtype=to_numpy(var.dtype))
        return fluid.NumpyArrayInitializer(array)(var, block)


class Bilinear(fluid.BilinearInitializer):
    """The filter with which a transposed convolution scales an image up."""


class Dirac(Initializer):
    """A filter that keeps channels as they are: (C_out, C_in, window ..) of 3 to 5 dimensions."""

    def __init__(self, groups: int = 1, name: str | None = None) -> None:
        assert groups > 0 and isinstance(groups, int), " 'groups' must be a positive integer. "
        self._groups = groups

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        shape = tuple(var.shape)
        assert len(shape) in (3, 4, 5), "Only Tensor with 3/4/5 dimensions can be initialized."
        assert shape[0] % self._groups == 0, "channel 0 must be divisible by groups"
        values = np.zeros(shape, dtype=to_numpy(var.dtype))
        each = shape[0] // self._groups
        middle = tuple(size // 2 for size in shape[2:])
        for group in range(self._groups):
            for channel in range(min(each, shape[1])):
                values[(group * each + channel, channel, *middle)] = 1
        return fluid.NumpyArrayInitializer(values)(var, block)


class Orthogonal(Initializer):
    """A matrix with orthogonal rows or columns, times `gain`; more dimensions count as columns."""

    def __init__(self, gain: float = 1.0, name: str | None = None) -> None:
        if gain is None:
            raise ValueError("gain must not be none.")
        self._gain = gain

    def __call__(self, var: Variable, block: Block | None) -> Operator:
        shape = tuple(var.shape)
        assert len(shape) >= 2, "Orthogonal initializer needs two dimensions or more"
        seed = 0 if block is None else block.program.random_seed
        draw = np.random.RandomState(seed or None).normal(size=(shape[0], math.prod(shape[1:])))
        tall = draw if draw.shape[0] >= draw.shape[1] else draw.T
        basis, upper = np.linalg.qr(tall)
        basis = basis * np.sign(np.diag(upper))
        matrix = basis if draw.shape[0] >= draw.shape[1] else basis.T
        values = (self._gain * matrix.reshape(shape)).astype(to_numpy(var.dtype))
        return fluid.NumpyArrayInitializer(values)(var, block)


_GAINS = {
    "sigmoid": 1.0,
    "linear": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv1d_transpose": 1.0,
    "conv2d_transpose": 1.0,
    "conv3d_transpose": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """How far an activation narrows what is passed to it: the recommended gain.

    param: the slope of `leaky_relu`, 0.01 where None. ValueError for an unknown activation.
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else float(param)
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        raise ValueError(f"nonlinearity function {nonlinearity} is not suppported now.")
    return _GAINS[nonlinearity]


def set_global_initializer(
    weight_init: Initializer | None, bias_init: Initializer | None = None
) -> None:
    """Has parameters made from now on start so where their attributes don't say how.

    None: as their layers have it.
    """
    for given in (weight_init, bias_init):
        if given is not None and not isinstance(given, Initializer):
            raise TypeError(f"an initializer is wanted, not {type(given).__name__}")
    default_initializers.update({False: weight_init, True: bias_init})
