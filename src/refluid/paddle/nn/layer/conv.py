"""Convolutions with filters of their own."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from refluid.fluid.functions.nn.windows import per_dimension
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional import conv, shapes
from refluid.paddle.nn.initializer import Normal
from refluid.paddle.nn.layer.layers import Layer

Sizes = int | Sequence[int]
_MODES = ("zeros", "reflect", "replicate", "circular")


class _Convolution(Layer):
    """A convolution over `spatial` dimensions."""

    spatial = 2

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__()
        assert weight_attr is not False, "weight_attr should not be False in Conv."
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels and out_channels must be divisible by groups.")
        if padding_mode not in _MODES:
            raise ValueError(f"padding_mode {padding_mode!r} is none of {', '.join(_MODES)}")
        window = per_dimension(kernel_size, self.spatial, "kernel_size")
        self._settings: dict[str, Any] = {
            "stride": stride,
            "padding": padding if padding_mode == "zeros" else 0,
            "dilation": dilation,
            "groups": groups,
            "data_format": data_format,
        }
        self._around: list[int] | None = None
        if padding_mode != "zeros":
            sides = per_dimension(padding, self.spatial, "padding")
            self._around = [side for side in sides[::-1] for _ in range(2)]
        self._padding_mode = padding_mode
        self._text = f"{in_channels}, {out_channels}, kernel_size={window}, stride={stride}"
        self.weight = self._filter(in_channels, out_channels, window, groups, weight_attr)
        self.bias = self.create_parameter([out_channels], bias_attr, is_bias=True)

    def _filter(self, of: int, to: int, window: list[int], groups: int, attr: Any) -> Any:
        spread = math.sqrt(2.0 / (math.prod(window) * of))
        shape = [to, of // groups, *window]
        return self.create_parameter(shape, attr, default_initializer=Normal(0.0, spread))

    def _padded(self, x: Variable) -> Variable:
        if self._around is None:
            return x
        data_format = str(self._settings["data_format"])
        return shapes.pad(x, self._around, self._padding_mode, 0.0, data_format)

    def extra_repr(self) -> str:
        """Its sizes."""
        return self._text


class Conv1D(_Convolution):
    """The convolution of (N, C, L)."""

    spatial = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups),
            *(padding_mode, weight_attr, bias_attr, data_format),
        )

    def forward(self, x: Variable) -> Variable:
        """The convolution of x."""
        return conv.conv1d(self._padded(x), self.weight, self.bias, **self._settings)


class Conv2D(_Convolution):
    """The convolution of (N, C, H, W)."""

    def forward(self, x: Variable) -> Variable:
        """The convolution of x."""
        return conv.conv2d(self._padded(x), self.weight, self.bias, **self._settings)


class Conv3D(_Convolution):
    """The convolution of (N, C, D, H, W)."""

    spatial = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        padding_mode: str = "zeros",
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups),
            *(padding_mode, weight_attr, bias_attr, data_format),
        )

    def forward(self, x: Variable) -> Variable:
        """The convolution of x."""
        return conv.conv3d(self._padded(x), self.weight, self.bias, **self._settings)


class _Transposed(_Convolution):
    """A transposed convolution."""

    def _filter(self, of: int, to: int, window: list[int], groups: int, attr: Any) -> Any:
        return self.create_parameter([of, to // groups, *window], attr)


class Conv1DTranspose(_Transposed):
    """The transposed convolution of (N, C, L)."""

    spatial = 1

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        output_padding: Sizes = 0,
        groups: int = 1,
        dilation: Sizes = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCL",
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups),
            *("zeros", weight_attr, bias_attr, data_format),
        )
        self._settings["output_padding"] = output_padding

    def forward(self, x: Variable, output_size: Any = None) -> Variable:
        """The transposed convolution of x."""
        settings = self._settings | {"output_size": output_size}
        return conv.conv1d_transpose(x, self.weight, self.bias, **settings)


class Conv2DTranspose(_Transposed):
    """The transposed convolution of (N, C, H, W)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCHW",
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups),
            *("zeros", weight_attr, bias_attr, data_format),
        )
        self._settings["output_padding"] = output_padding

    def forward(self, x: Variable, output_size: Any = None) -> Variable:
        """The transposed convolution of x."""
        settings = self._settings | {"output_size": output_size}
        return conv.conv2d_transpose(x, self.weight, self.bias, **settings)


class Conv3DTranspose(_Transposed):
    """The transposed convolution of (N, C, D, H, W)."""

    spatial = 3

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Any = 0,
        output_padding: Sizes = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        weight_attr: Any = None,
        bias_attr: Any = None,
        data_format: str = "NCDHW",
    ) -> None:
        super().__init__(
            *(in_channels, out_channels, kernel_size, stride, padding, dilation, groups),
            *("zeros", weight_attr, bias_attr, data_format),
        )
        self._settings["output_padding"] = output_padding

    def forward(self, x: Variable, output_size: Any = None) -> Variable:
        """The transposed convolution of x."""
        settings = self._settings | {"output_size": output_size}
        return conv.conv3d_transpose(x, self.weight, self.bias, **settings)
