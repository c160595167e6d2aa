"""Convolutions with filters that are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.functions.nn.windows import padding_attributes, per_dimension
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import known, rank_of

Sizes = int | Sequence[int]


def _last(data_format: str, where: str) -> bool:
    """Whether channels are the last dimension."""
    if data_format not in ("NCL", "NLC", "NCHW", "NHWC", "NCDHW", "NDHWC"):
        raise ValueError(f"{where}: data_format {data_format!r} is none")
    return data_format[-1] == "C"


def _finished(out: Variable, bias: Variable | None, last: bool, name: str | None) -> Variable:
    if bias is None:
        return out
    return op("elementwise_add", {"X": out, "Y": bias}, {"axis": -1 if last else 1}, name=name)


def _settings(
    spatial: int, stride: Sizes, padding: Any, dilation: Sizes, groups: int, last: bool, where: str
) -> dict[str, Any]:
    return {
        "strides": per_dimension(stride, spatial, "stride"),
        "dilations": per_dimension(dilation, spatial, "dilation"),
        "groups": groups,
        "data_format": "NHWC" if last else "NCHW",
        **padding_attributes(padding, spatial, last, where),
    }


def _convolve(
    where: str,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Sizes,
    padding: Any,
    dilation: Sizes,
    groups: int,
    data_format: str,
    name: str | None,
) -> Variable:
    spatial, last = rank_of(weight) - 2, _last(data_format, where)
    attrs = _settings(spatial, stride, padding, dilation, groups, last, where)
    out = op(where, {"Input": x, "Filter": weight}, attrs, name=name)
    return _finished(out, bias, last, name)


def conv2d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The convolution of (N, C, H, W) with a filter (M, C / groups, h, w).

    padding: a number, one for each dimension or side, `SAME` or `VALID`.
    """
    return _convolve(
        "conv2d", x, weight, bias, stride, padding, dilation, groups, data_format, name
    )


def conv3d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """The convolution of (N, C, D, H, W) with a filter (M, C / groups, d, h, w)."""
    return _convolve(
        "conv3d", x, weight, bias, stride, padding, dilation, groups, data_format, name
    )


def conv1d(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """The convolution of (N, C, L) with a filter (M, C / groups, l)."""
    last = _last(data_format, "conv1d")
    place = 1 if last else 2
    made = conv2d(
        op("unsqueeze2", {"X": x}, {"axes": [place]}),
        op("unsqueeze2", {"X": weight}, {"axes": [2]}),
        bias,
        flat(stride, 1),
        flat_padding(padding),
        flat(dilation, 1),
        groups,
        "NHWC" if last else "NCHW",
    )
    return op("squeeze2", {"X": made}, {"axes": [place]}, name=name)


def flat(value: Sizes, other: int) -> list[int]:
    """A setting of one dimension as that of two, the first being of size 1."""
    return [other, value if isinstance(value, int) else value[0]]


def flat_padding(padding: Any) -> Any:
    """A padding of one dimension as that of two."""
    if isinstance(padding, str):
        return padding
    listed = [padding] if isinstance(padding, int) else list(padding)
    if len(listed) == 3:  # with those of batch and channel
        return [listed[0], listed[1], [0, 0], listed[2]]
    return [0, listed[0]] if len(listed) == 1 else [0, 0, *listed]


def _convolve_back(
    where: str,
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    stride: Sizes,
    padding: Any,
    output_padding: Sizes,
    dilation: Sizes,
    groups: int,
    output_size: Any,
    data_format: str,
    name: str | None,
) -> Variable:
    spatial, last = rank_of(weight) - 2, _last(data_format, where)
    attrs = _settings(spatial, stride, padding, dilation, groups, last, where)
    added = per_dimension(output_padding, spatial, "output_padding")
    if output_size is not None:
        attrs["output_size"] = per_dimension(output_size, spatial, "output_size")
    elif any(added):
        attrs["output_size"] = _grown(where, x, weight, attrs, added, last)
    out = op(where, {"Input": x, "Filter": weight}, attrs, name=name)
    return _finished(out, bias, last, name)


def _grown(
    where: str, x: Variable, weight: Variable, attrs: dict[str, Any], added: list[int], last: bool
) -> list[int]:
    """The sizes of the result with `output_padding`."""
    sizes = x.shape[1:-1] if last else x.shape[2:]
    if not known(sizes) or attrs["padding_algorithm"] != "EXPLICIT":
        raise NotImplementedError(f"{where}: output_padding needs sizes that are known")
    pads = attrs["paddings"]
    both = (
        [2 * pad for pad in pads]
        if len(pads) == len(sizes)
        else [pads[2 * n] + pads[2 * n + 1] for n in range(len(sizes))]
    )
    return [
        (size - 1) * attrs["strides"][n]
        - both[n]
        + attrs["dilations"][n] * (weight.shape[2 + n] - 1)
        + 1
        + added[n]
        for n, size in enumerate(sizes)
    ]


def conv2d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
    output_size: Any = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The transposed convolution of (N, C, H, W) with a filter (C, M / groups, h, w)."""
    return _convolve_back(
        "conv2d_transpose",
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        output_size,
        data_format,
        name,
    )


def conv3d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    output_size: Any = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """The transposed convolution of (N, C, D, H, W) with a filter (C, M / groups, d, h, w)."""
    return _convolve_back(
        "conv3d_transpose",
        x,
        weight,
        bias,
        stride,
        padding,
        output_padding,
        dilation,
        groups,
        output_size,
        data_format,
        name,
    )


def conv1d_transpose(
    x: Variable,
    weight: Variable,
    bias: Variable | None = None,
    stride: Sizes = 1,
    padding: Any = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
    output_size: Any = None,
    data_format: str = "NCL",
    name: str | None = None,
) -> Variable:
    """The transposed convolution of (N, C, L) with a filter (C, M / groups, l)."""
    last = _last(data_format, "conv1d_transpose")
    place = 1 if last else 2
    made = conv2d_transpose(
        op("unsqueeze2", {"X": x}, {"axes": [place]}),
        op("unsqueeze2", {"X": weight}, {"axes": [2]}),
        bias,
        flat(stride, 1),
        flat_padding(padding),
        flat(output_padding, 0),
        flat(dilation, 1),
        groups,
        None if output_size is None else flat(output_size, 1),
        "NHWC" if last else "NCHW",
    )
    return op("squeeze2", {"X": made}, {"axes": [place]}, name=name)
