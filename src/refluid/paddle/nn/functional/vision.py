"""Images resized, turned and taken apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refluid.build import at_once, op
from refluid.fluid.functions.nn import interpolation
from refluid.fluid.functions.nn import vision as fluid
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import known, rank_of

_SPATIAL = {"linear": 1, "bilinear": 2, "bicubic": 2, "nearest": 2, "trilinear": 3}


def interpolate(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Images at another size, or times a factor. mode: nearest, bilinear, bicubic, trilinear,
    linear (of (N, C, L)).
    """
    kind = mode.lower()
    if kind not in (*_SPATIAL, "area"):
        raise ValueError(
            "The 'resample' of image_resize can only be 'linear', 'bilinear', 'trilinear', "
            " 'bicubic' or 'nearest' currently."
        )
    if size is None and scale_factor is None:
        raise ValueError("One of size and scale_factor must not be None.")
    if kind == "area":
        raise NotImplementedError("refluid has no mode 'area': adaptive_avg_pool2d is the same")
    if kind == "linear":
        return _linear(x, size, scale_factor, align_corners, align_mode, name)
    if isinstance(scale_factor, list | tuple):
        sizes = x.shape[1:-1] if data_format[-1] == "C" else x.shape[2:]
        if not known(sizes):
            raise NotImplementedError("interpolate: several factors need sizes that are known")
        size = [int(one * by) for one, by in zip(sizes, scale_factor, strict=True)]
        scale_factor = None
    if kind == "bicubic":
        return _cubic(x, size, scale_factor, align_corners, data_format, name)
    wanted = [size] * (rank_of(x) - 2) if isinstance(size, int) else size
    return interpolation.image_resize(
        x, wanted, scale_factor, name, kind.upper(), None, align_corners, align_mode, data_format
    )


def _cubic(
    x: Variable, size: Any, factor: Any, corners: bool, data_format: str, name: str | None
) -> Variable:
    attrs = {
        "out_h": -1,
        "out_w": -1,
        "interp_method": "bicubic",
        "align_corners": corners,
        "data_layout": "NHWC" if data_format[-1] == "C" else "NCHW",
    }
    if size is not None:
        sizes = [size, size] if isinstance(size, int) else list(size)
        attrs |= {"out_h": sizes[0], "out_w": sizes[1]}
    else:
        attrs["scale"] = float(factor)
    return op("bicubic_interp", {"X": x}, attrs, name=name)


def _linear(
    x: Variable, size: Any, factor: Any, corners: bool, mode: int, name: str | None
) -> Variable:
    if size is None:
        factor = factor[0] if isinstance(factor, list | tuple) else factor
        size = int(x.shape[2] * factor)
    wanted = size if isinstance(size, int) else size[0]
    plane = op("unsqueeze2", {"X": x}, {"axes": [2]})
    made = interpolation.image_resize(
        plane, [1, wanted], None, None, "BILINEAR", None, corners, mode
    )
    return op("squeeze2", {"X": made}, {"axes": [2]}, name=name)


def upsample(
    x: Variable,
    size: Any = None,
    scale_factor: Any = None,
    mode: str = "nearest",
    align_corners: bool = False,
    align_mode: int = 0,
    data_format: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """`interpolate` by another name."""
    return interpolate(x, size, scale_factor, mode, align_corners, align_mode, data_format, name)


def pixel_shuffle(
    x: Variable, upscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """(N, C r², H, W) as (N, C, H r, W r)."""
    attrs = {"upscale_factor": upscale_factor}
    return _with_channels_first(
        x, data_format, lambda first: op("pixel_shuffle", {"X": first}, attrs, name=name)
    )


def pixel_unshuffle(
    x: Variable, downscale_factor: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """(N, C, H r, W r) as (N, C r², H, W)."""
    r = downscale_factor

    def change(first: Variable) -> Variable:
        n, (c, h, w) = 0, first.shape[1:]
        parted = op("reshape2", {"X": first}, {"shape": [n, c, h // r, r, w // r, r]})
        turned = op("transpose2", {"X": parted}, {"axis": [0, 1, 3, 5, 2, 4]})
        return op("reshape2", {"X": turned}, {"shape": [n, c * r * r, h // r, w // r]}, name=name)

    return _with_channels_first(x, data_format, change)


def channel_shuffle(
    x: Variable, groups: int, data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Channels of groups taken in turn."""
    attrs = {"group": groups}
    return _with_channels_first(
        x, data_format, lambda first: op("shuffle_channel", {"X": first}, attrs, name=name)
    )


def temporal_shift(
    x: Variable,
    seg_num: int,
    shift_ratio: float = 0.25,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Parts of the channels moved to the frame before and after."""
    attrs = {"seg_num": seg_num, "shift_ratio": shift_ratio}
    return _with_channels_first(
        x, data_format, lambda first: op("temporal_shift", {"X": first}, attrs, name=name)
    )


def _with_channels_first(
    x: Variable, data_format: str, change: Callable[[Variable], Variable]
) -> Variable:
    """What `change` makes of (N, C, H, W), as `data_format` says. ValueError for others."""
    if data_format == "NCHW":
        return change(x)
    if data_format != "NHWC":
        raise ValueError(f"Attr(data_format) should be 'NCHW' or 'NHWC', not {data_format!r}")
    made = change(op("transpose2", {"X": x}, {"axis": [0, 3, 1, 2]}))
    return op("transpose2", {"X": made}, {"axis": [0, 2, 3, 1]})


def affine_grid(
    theta: Variable, out_shape: Any, align_corners: bool = True, name: str | None = None
) -> Variable:
    """Where the points of an image (N, C, H, W) come from, by matrices (N, 2, 3).

    Of (N, C, D, H, W) by matrices (N, 3, 4). A shape in a variable is for planes only.
    """
    if isinstance(out_shape, Variable) and not at_once():
        if not align_corners:
            raise NotImplementedError("affine_grid: align_corners=False needs a shape in numbers")
        return fluid.affine_grid(theta, out_shape, name)
    if isinstance(out_shape, Variable):
        out_shape = out_shape.numpy().tolist()
    attrs = {"output_shape": [int(one) for one in out_shape], "align_corners": bool(align_corners)}
    return op("affine_grid_v2", {"Theta": theta}, attrs, name=name)


def grid_sample(
    x: Variable,
    grid: Variable,
    mode: str = "bilinear",
    padding_mode: str = "zeros",
    align_corners: bool = True,
    name: str | None = None,
) -> Variable:
    """Images at the points of a grid, `bilinear` or `nearest`.

    padding_mode: what is beyond: `zeros`, the `border`, or a `reflection`. ValueError for others.
    """
    if mode not in ("bilinear", "nearest"):
        raise ValueError(
            f"The mode of grid sample function should be in ['bilinear', 'nearest'], not {mode}"
        )
    if padding_mode not in ("zeros", "border", "reflection"):
        raise ValueError(
            "The padding mode of grid sample function should be in ['zeros', 'reflection', "
            f"'border'], but got: {padding_mode}"
        )
    attrs = {"mode": mode, "padding_mode": padding_mode, "align_corners": bool(align_corners)}
    return op("grid_sample", {"X": x, "Grid": grid}, attrs, name=name)


def fold(
    x: Variable,
    output_sizes: Any,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """Windows as columns (N, C h w, windows) added up to images: what `unfold` took apart."""
    around = [paddings] * 4 if isinstance(paddings, int) else list(paddings)
    attrs = {
        "output_sizes": _two(output_sizes),
        "kernel_sizes": _two(kernel_sizes),
        "strides": _two(strides),
        "paddings": around * 2 if len(around) == 2 else around,
        "dilations": _two(dilations),
    }
    return op("fold", {"X": x}, attrs, name=name)


def _two(given: Any) -> list[int]:
    return [int(given)] * 2 if isinstance(given, int) else [int(one) for one in given]


def unfold(
    x: Variable,
    kernel_sizes: Any,
    strides: Any = 1,
    paddings: Any = 0,
    dilations: Any = 1,
    name: str | None = None,
) -> Variable:
    """Each window of (N, C, H, W) as a column: (N, C h w, windows)."""
    return fluid.unfold(x, kernel_sizes, strides, paddings, dilations, name)


def zeropad2d(
    x: Variable, padding: Sequence[int], data_format: str = "NCHW", name: str | None = None
) -> Variable:
    """Images with zeros around: (left, right, top, bottom)."""
    from refluid.paddle.nn.functional.shapes import pad

    return pad(x, padding, "constant", 0.0, data_format, name)
