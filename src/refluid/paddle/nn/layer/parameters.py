"""Layers with a weight: linear maps, tables, PReLU, padding, containers of these."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.nn.functional import activation, shapes, vision
from refluid.paddle.nn.initializer import Constant
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.tensor.manipulation import reshape


class Linear(Layer):
    """x · weight + bias over the last dimension."""

    def __init__(
        self,
        in_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        self.in_features, self.out_features = in_features, out_features
        self.weight = self.create_parameter([in_features, out_features], weight_attr)
        self.bias = self.create_parameter([out_features], bias_attr, is_bias=True)

    def forward(self, input: Variable) -> Variable:
        """(..., in_features) gives (..., out_features)."""
        return shapes.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        """Its sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}"


class Bilinear(Layer):
    """x1 · weight[i] · x2 + bias[i]."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        weight_attr: Any = None,
        bias_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        shape = [out_features, in1_features, in2_features]
        self.weight = self.create_parameter(shape, weight_attr)
        self.bias = self.create_parameter([1, out_features], bias_attr, is_bias=True)

    def forward(self, x1: Variable, x2: Variable) -> Variable:
        """(N, in1_features) and (N, in2_features) give (N, out_features)."""
        return shapes.bilinear(x1, x2, self.weight, self.bias)


class Embedding(Layer):
    """Rows of a table chosen by ids. padding_idx: the id whose row is zeros."""

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        sparse: bool = False,
        weight_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if num_embeddings <= 0 or embedding_dim <= 0:
            raise ValueError("num_embeddings and embedding_dim must be greater than 0")
        first = padding_idx
        if padding_idx is not None and padding_idx < 0:
            first = num_embeddings + padding_idx
        if first is not None and not 0 <= first < num_embeddings:
            raise ValueError(f"padding_idx must be within [-{num_embeddings}, {num_embeddings})")
        self._padding_idx, self._sparse = first, sparse
        self.weight = self.create_parameter([num_embeddings, embedding_dim], weight_attr)

    def forward(self, x: Variable) -> Variable:
        """The rows of the ids x."""
        return shapes.embedding(x, self.weight, self._padding_idx, self._sparse)


class PReLU(Layer):
    """x where positive, else weight * x: one weight, or one for each channel."""

    def __init__(
        self,
        num_parameters: int = 1,
        init: float = 0.25,
        weight_attr: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._data_format = data_format
        self._weight = self.create_parameter(
            [num_parameters], weight_attr, default_initializer=Constant(init)
        )

    def forward(self, x: Variable) -> Variable:
        """The activation of x."""
        return activation.prelu(x, self._weight, self._data_format)


class Identity(Layer):
    """What it is given; it may be made with anything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Unflatten(Layer):
    """One dimension parted into several."""

    def __init__(self, axis: int, shape: Sequence[int], name: str | None = None) -> None:
        super().__init__()
        self._axis, self._shape = axis, list(shape)

    def forward(self, input: Variable) -> Variable:
        """The parted input."""
        sizes = list(input.shape)
        place = self._axis % len(sizes)
        before = [0] * place
        return reshape(input, [*before, *self._shape, *sizes[place + 1 :]])


class Softmax2D(Layer):
    """The softmax over the channels of images."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__()

    def forward(self, x: Variable) -> Variable:
        """The softmax of x."""
        return activation.softmax(x, -3)


class _Pad(Layer):
    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        spatial = len(data_format) - 2
        self._padding = [padding] * (2 * spatial) if isinstance(padding, int) else padding
        self._settings = (mode, value, data_format)

    def forward(self, x: Variable) -> Variable:
        """x with numbers around it."""
        return shapes.pad(x, self._padding, *self._settings)


class Pad1D(_Pad):
    """(N, C, L) with numbers around: (left, right)."""

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCL",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format)


class Pad2D(_Pad):
    """Images with numbers around: (left, right, top, bottom)."""


class Pad3D(_Pad):
    """(N, C, D, H, W) with numbers around: (left, right, top, bottom, front, back)."""

    def __init__(
        self,
        padding: Any,
        mode: str = "constant",
        value: float = 0.0,
        data_format: str = "NCDHW",
        name: str | None = None,
    ) -> None:
        super().__init__(padding, mode, value, data_format)


class UpsamplingNearest2D(Layer):
    """Images at another size, by the nearest pixel."""

    _mode = "nearest"

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        data_format: str = "NCHW",
        name: str | None = None,
    ) -> None:
        super().__init__()
        self._settings = (size, scale_factor, self._mode, self._mode == "bilinear", 0, data_format)

    def forward(self, x: Variable) -> Variable:
        """The resized images."""
        return vision.interpolate(x, *self._settings)


class UpsamplingBilinear2D(UpsamplingNearest2D):
    """Images at another size, bilinear, with corners aligned."""

    _mode = "bilinear"
