"""Parts that several models have."""

from __future__ import annotations

from typing import Any

from refluid.paddle.nn.layer import functions
from refluid.paddle.nn.layer.container import Sequential
from refluid.paddle.nn.layer.conv import Conv2D
from refluid.paddle.nn.layer.norm import BatchNorm2D


def divisible(value: float, by: int = 8) -> int:
    """The multiple of `by` that is next to a number, not below nine tenths of it."""
    found = max(by, int(value + by / 2) // by * by)
    return found + by if found < 0.9 * value else found


class ConvNormActivation(Sequential):
    """A convolution that keeps sizes but for its stride, a batch norm, and an activation.

    padding: instead of what keeps sizes. norm: makes the norm of so many channels.
    """

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: int = 1,
        groups: int = 1,
        activation: Any = functions.ReLU,
        padding: Any = None,
        norm: Any = BatchNorm2D,
    ) -> None:
        around = (kernel_size - 1) // 2 if padding is None else padding
        parts: list[Any] = [
            Conv2D(
                in_channels,
                out_channels,
                kernel_size,
                stride,
                around,
                groups=groups,
                bias_attr=False,
            ),
            norm(out_channels),
        ]
        if activation is not None:
            parts.append(activation())
        super().__init__(*parts)
