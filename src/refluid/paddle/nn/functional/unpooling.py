"""Pooling undone: each element where it was, zeros elsewhere."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import rank_of

_FORMATS = {1: "NCL", 2: "NCHW", 3: "NCDHW"}


def max_unpool1d(
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    data_format: str = "NCL",
    output_size: Any = None,
    name: str | None = None,
) -> Variable:
    """(N, C, L) and its indices from `max_pool1d` as what was pooled.

    output_size: its length; else what kernel, stride and padding say.
    """
    return _unpool(1, x, indices, kernel_size, stride, padding, data_format, output_size, name)


def max_unpool2d(
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    data_format: str = "NCHW",
    output_size: Any = None,
    name: str | None = None,
) -> Variable:
    """(N, C, H, W) and its indices from `max_pool2d` as what was pooled."""
    return _unpool(2, x, indices, kernel_size, stride, padding, data_format, output_size, name)


def max_unpool3d(
    x: Variable,
    indices: Variable,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    data_format: str = "NCDHW",
    output_size: Any = None,
    name: str | None = None,
) -> Variable:
    """(N, C, D, H, W) and its indices from `max_pool3d` as what was pooled."""
    return _unpool(3, x, indices, kernel_size, stride, padding, data_format, output_size, name)


def _unpool(
    count: int,
    x: Variable,
    indices: Variable,
    kernel: Any,
    stride: Any,
    padding: Any,
    data_format: str,
    output_size: Any,
    name: str | None,
) -> Variable:
    if data_format != _FORMATS[count]:
        raise ValueError(
            f"Attr(data_format) of max_unpool{count}d should be {_FORMATS[count]}, not "
            f"{data_format}"
        )
    if rank_of(x) != count + 2:
        raise ValueError(f"max_unpool{count}d takes {count + 2} dimensions, not {list(x.shape)}")
    kernels, paddings = _several(kernel, count), _several(padding, count)
    strides = kernels if stride is None else _several(stride, count)
    usual = [
        (size - 1) * step - 2 * pad + window
        for size, step, pad, window in zip(x.shape[2:], strides, paddings, kernels, strict=True)
    ]
    wanted = usual if output_size is None else [int(one) for one in output_size][-count:]
    for size, asked, step in zip(usual, wanted, strides, strict=True):
        if not size - step < asked < size + step:
            raise ValueError(
                f"invalid output_size {wanted}: max_unpool{count}d gives about {usual} here"
            )
    return op("max_unpool", {"X": x, "Indices": indices}, {"output_size": wanted}, name=name)


def _several(given: Any, count: int) -> list[int]:
    return [int(given)] * count if isinstance(given, int) else [int(one) for one in given]
