"""A weight given to a layer, divided by its largest singular value."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.framework.attributes import ParamAttr
from refluid.paddle.nn.initializer import Normal
from refluid.paddle.nn.layer.layers import Layer


class SpectralNorm(Layer):
    """Divides what it is given, a weight, by an estimate of its largest singular value.

    weight_shape: of the weight. dim: the rows of it as a matrix. power_iters: rounds of the
    estimate in each call, which begin with the vectors weight_u and weight_v.
    """

    def __init__(
        self,
        weight_shape: Sequence[int],
        dim: int = 0,
        power_iters: int = 1,
        eps: float = 1e-12,
        dtype: str = "float32",
    ) -> None:
        super().__init__(dtype=dtype)
        self._settings = {"dim": dim, "power_iters": power_iters, "eps": float(eps)}
        assert math.prod(weight_shape) > 0, "Any dimension of `weight_shape` cannot be equal to 0."
        high = weight_shape[dim]
        wide = math.prod(weight_shape) // high
        self.weight_u, self.weight_v = self._vector(high), self._vector(wide)

    def _vector(self, size: int) -> Any:
        attr = ParamAttr(initializer=Normal(0.0, 1.0), trainable=False)
        made = self.create_parameter([size], attr)
        made.stop_gradient = True
        return made

    def forward(self, x: Variable) -> Variable:
        """The weight divided."""
        inputs = {"Weight": x, "U": self.weight_u, "V": self.weight_v}
        return op("spectral_norm", inputs, self._settings)
