"""Pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.functions.nn.windows import padding_attributes, per_dimension
from refluid.ir.variable import Variable
from refluid.paddle.nn.functional.conv import flat, flat_padding
from refluid.paddle.tensor.making import rank_of

Sizes = int | Sequence[int]


def _pool(
    kind: str,
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None,
    padding: Any,
    ceil_mode: bool,
    exclusive: bool,
    data_format: str,
    name: str | None,
) -> Variable:
    spatial = rank_of(x) - 2
    last = data_format[-1] == "C"
    where = f"{kind}_pool{spatial}d"
    window = per_dimension(kernel_size, spatial, "kernel_size")
    attrs = {
        "pooling_type": kind,
        "ksize": window,
        "strides": window if stride is None else per_dimension(stride, spatial, "stride"),
        "ceil_mode": ceil_mode,
        "exclusive": exclusive,
        "data_format": data_format,
        **padding_attributes(padding, spatial, last, where),
    }
    return op(f"pool{spatial}d", {"X": x}, attrs, name=name)


def _with_mask(
    x: Variable, kernel_size: Sizes, stride: Sizes | None, padding: Any, name: str | None
) -> tuple[Variable, ...]:
    spatial = rank_of(x) - 2
    window = per_dimension(kernel_size, spatial, "kernel_size")
    attrs = {
        "ksize": window,
        "strides": window if stride is None else per_dimension(stride, spatial, "stride"),
        "paddings": per_dimension(padding, spatial, "padding"),
    }
    return op(f"max_pool{spatial}d_with_index", {"X": x}, attrs, ("Out", "Mask"), name=name)


def max_pool2d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Any:
    """The greatest of each window of (N, C, H, W). return_mask: where it was, too."""
    if return_mask:
        return _with_mask(x, kernel_size, stride, padding, name)
    return _pool("max", x, kernel_size, stride, padding, ceil_mode, True, data_format, name)


def max_pool3d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Any:
    """The greatest of each window of (N, C, D, H, W). return_mask: where it was, too."""
    if return_mask:
        return _with_mask(x, kernel_size, stride, padding, name)
    return _pool("max", x, kernel_size, stride, padding, ceil_mode, True, data_format, name)


def max_pool1d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    return_mask: bool = False,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Any:
    """The greatest of each window of (N, C, L). return_mask: where it was, too."""
    found = max_pool2d(
        _plane(x),
        flat(kernel_size, 1),
        _flat_stride(stride),
        flat_padding(padding),
        return_mask,
        ceil_mode,
    )
    if return_mask:
        return tuple(_line(one, name) for one in found)
    return _line(found, name)


def _plane(x: Variable) -> Variable:
    return op("unsqueeze2", {"X": x}, {"axes": [2]})


def _line(x: Variable, name: str | None) -> Variable:
    return op("squeeze2", {"X": x}, {"axes": [2]}, name=name)


def _flat_stride(stride: Sizes | None) -> list[int] | None:
    return None if stride is None else flat(stride, 1)


def _overridden(out: Variable, window: Sequence[int], divisor: int | None) -> Variable:
    """A mean of whole windows as their sum divided by another number."""
    if not divisor:
        return out
    count = 1
    for size in window:
        count *= size
    return op("scale", {"X": out}, {"scale": count / divisor})


def avg_pool2d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """The mean of each window of (N, C, H, W). exclusive: of what lies inside only."""
    inside = exclusive and not divisor_override
    out = _pool("avg", x, kernel_size, stride, padding, ceil_mode, inside, data_format, name)
    return _overridden(out, per_dimension(kernel_size, 2, "kernel_size"), divisor_override)


def avg_pool3d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    ceil_mode: bool = False,
    exclusive: bool = True,
    divisor_override: int | None = None,
    data_format: str = "NCDHW",
    name: str | None = None,
) -> Variable:
    """The mean of each window of (N, C, D, H, W). exclusive: of what lies inside only."""
    inside = exclusive and not divisor_override
    out = _pool("avg", x, kernel_size, stride, padding, ceil_mode, inside, data_format, name)
    return _overridden(out, per_dimension(kernel_size, 3, "kernel_size"), divisor_override)


def avg_pool1d(
    x: Variable,
    kernel_size: Sizes,
    stride: Sizes | None = None,
    padding: Any = 0,
    exclusive: bool = True,
    ceil_mode: bool = False,
    name: str | None = None,
) -> Variable:
    """The mean of each window of (N, C, L). exclusive: of what lies inside only."""
    out = avg_pool2d(
        _plane(x),
        flat(kernel_size, 1),
        _flat_stride(stride),
        flat_padding(padding),
        ceil_mode,
        exclusive,
    )
    return _line(out, name)


def _adaptive(
    kind: str, x: Variable, output_size: Any, mask: bool, data_format: str, name: str | None
) -> Any:
    spatial = rank_of(x) - 2
    sizes = x.shape[1:-1] if data_format[-1] == "C" else x.shape[2:]
    given = [output_size] * spatial if isinstance(output_size, int) else list(output_size)
    wanted = [own if one is None else one for one, own in zip(given, sizes, strict=True)]
    attrs: dict[str, Any] = {"ksize": wanted, "adaptive": True}
    if kind == "avg":
        attrs |= {"pooling_type": "avg", "data_format": data_format}
        return op(f"pool{spatial}d", {"X": x}, attrs, name=name)
    found = op(f"max_pool{spatial}d_with_index", {"X": x}, attrs, ("Out", "Mask"), name=name)
    return found if mask else found[0]


def adaptive_avg_pool2d(
    x: Variable, output_size: Any, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """The means of so many equal windows; None keeps the size of x."""
    found: Variable = _adaptive("avg", x, output_size, False, data_format, name)
    return found


def adaptive_avg_pool3d(
    x: Variable, output_size: Any, data_format: str = "NCDHW", name: str | None = None
) -> Variable:
    """The means of so many equal windows; None keeps the size of x."""
    found: Variable = _adaptive("avg", x, output_size, False, data_format, name)
    return found


def adaptive_avg_pool1d(x: Variable, output_size: int, name: str | None = None) -> Variable:
    """The means of so many equal windows of (N, C, L)."""
    return _line(_adaptive("avg", _plane(x), [1, output_size], False, "NCHW", None), name)


def adaptive_max_pool2d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """The greatest of so many equal windows. return_mask: where it was, too."""
    return _adaptive("max", x, output_size, return_mask, "NCHW", name)


def adaptive_max_pool3d(
    x: Variable, output_size: Any, return_mask: bool = False, name: str | None = None
) -> Any:
    """The greatest of so many equal windows. return_mask: where it was, too."""
    return _adaptive("max", x, output_size, return_mask, "NCDHW", name)


def adaptive_max_pool1d(
    x: Variable, output_size: int, return_mask: bool = False, name: str | None = None
) -> Any:
    """The greatest of so many equal windows of (N, C, L). return_mask: where it was, too."""
    found = _adaptive("max", _plane(x), [1, output_size], return_mask, "NCHW", None)
    if return_mask:
        return tuple(_line(one, name) for one in found)
    return _line(found, name)
