"""Images and volumes in another size."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.fluid.functions.tensor.tensor_lists import Sizes, constant_of, mixed
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

_KINDS = {
    "BILINEAR": ("bilinear", 4),
    "NEAREST": ("nearest", 4),
    "TRILINEAR": ("trilinear", 5),
}
_FIRST = {4: "NCHW", 5: "NCDHW"}
_LAST = {4: "NHWC", 5: "NDHWC"}
_SIZES = {4: ("out_h", "out_w"), 5: ("out_d", "out_h", "out_w")}


def _size_inputs(
    helper: LayerHelper, rank: int, out_shape: Sizes
) -> tuple[dict[str, Any], dict[str, Any]]:
    """(inputs, attributes) that say the size of the result."""
    inputs, sizes = mixed(out_shape, "image_resize", "OutSize", "SizeTensor", constant_of(helper))
    if sizes is None:
        return inputs, {}
    if len(sizes) != rank - 2:
        raise ValueError(f"out_shape must hold {rank - 2} sizes, not {list(sizes)}")
    if any(size <= 0 for size in sizes) and not inputs:
        raise ValueError(f"sizes of out_shape must be greater than 0, not {list(sizes)}")
    return inputs, dict(zip(_SIZES[rank], sizes, strict=True))


def _scale_inputs(scale: float | Variable) -> tuple[dict[str, Any], dict[str, Any]]:
    if isinstance(scale, Variable):
        scale.stop_gradient = True
        return {"Scale": scale}, {}
    if scale <= 0:
        raise ValueError(f"scale must be greater than 0, not {scale}")
    return {}, {"scale": float(scale)}


def _kind_of(resample: str, input: Variable) -> tuple[str, int]:
    """The operator's kind and the rank that it takes."""
    if resample not in _KINDS:
        can = "can only be 'BILINEAR', 'TRILINEAR' or 'NEAREST' currently"
        raise ValueError(f"The 'resample' of image_resize {can}, not {resample!r}")
    kind, rank = _KINDS[resample]
    if len(input.shape) != rank:
        found = f"{input.name} has {len(input.shape)}"
        raise ValueError(f"image_resize: TRILINEAR takes 5 dimensions, the others 4, and {found}")
    return kind, rank


def _require_alignment(align_corners: bool, align_mode: int) -> None:
    if not isinstance(align_corners, bool):
        raise TypeError(f"image_resize: align_corners must be True or False, not {align_corners!r}")
    if align_mode not in (0, 1):
        raise ValueError(f"image_resize: align_mode must be 0 or 1, not {align_mode!r}")


def image_resize(
    input: Variable,
    out_shape: Sizes | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """`input` resized to `out_shape`, or by the factor `scale`.

    input: (N, C, H, W), for TRILINEAR (N, C, D, H, W), or with channels last as `data_format`
    says. out_shape: a size per spatial dimension, numbers and variables of shape (1,), or one
    int32 variable. resample: BILINEAR, NEAREST or TRILINEAR. align_corners: the centres of
    the corners stay in place; else align_mode 0 takes (i + 0.5) * ratio - 0.5 and 1 takes i *
    ratio. actual_shape: an int32 variable that wins over `out_shape`.

    Raises ValueError for another resample or rank, or where neither size nor factor is given.
    """
    _require_alignment(align_corners, align_mode)
    kind, rank = _kind_of(resample, input)
    data_format = _FIRST[5] if rank == 5 and data_format == "NCHW" else data_format
    if data_format not in (_FIRST[rank], _LAST[rank]):
        raise ValueError(f"data_format must be {_FIRST[rank]} or {_LAST[rank]}, not {data_format}")
    helper = LayerHelper(f"{kind}_interp", name=name)
    if out_shape is not None:
        inputs, sizes = _size_inputs(helper, rank, out_shape)
    elif scale is not None:
        inputs, sizes = _scale_inputs(scale)
    else:
        raise ValueError("one of out_shape and scale must be given")
    if actual_shape is not None:
        actual_shape.stop_gradient = True
        inputs = inputs | {"OutSize": actual_shape}
    attrs = {
        **dict.fromkeys(("out_d", "out_h", "out_w"), -1),
        "interp_method": kind,
        "align_corners": align_corners,
        "align_mode": align_mode,
        "data_layout": "NCHW" if data_format == _FIRST[rank] else "NHWC",
    }
    return op(f"{kind}_interp", {"X": input} | inputs, attrs | sizes, layer=helper)


def interpolate(
    input: Variable,
    out_shape: Sizes | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    resample: str = "BILINEAR",
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` by another name."""
    return image_resize(
        input,
        out_shape,
        scale,
        name,
        resample,
        actual_shape,
        align_corners,
        align_mode,
        data_format,
    )


def resize_bilinear(
    input: Variable,
    out_shape: Sizes | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` by linear interpolation in both directions."""
    how = ("BILINEAR", actual_shape, align_corners, align_mode, data_format)
    return image_resize(input, out_shape, scale, name, *how)


def resize_trilinear(
    input: Variable,
    out_shape: Sizes | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    align_mode: int = 1,
    data_format: str = "NCDHW",
) -> Variable:
    """`image_resize` of volumes by linear interpolation in all three directions."""
    how = ("TRILINEAR", actual_shape, align_corners, align_mode, data_format)
    return image_resize(input, out_shape, scale, name, *how)


def resize_nearest(
    input: Variable,
    out_shape: Sizes | None = None,
    scale: float | Variable | None = None,
    name: str | None = None,
    actual_shape: Variable | None = None,
    align_corners: bool = True,
    data_format: str = "NCHW",
) -> Variable:
    """`image_resize` by nearest neighbours."""
    how = ("NEAREST", actual_shape, align_corners, 1, data_format)
    return image_resize(input, out_shape, scale, name, *how)


def image_resize_short(input: Variable, out_short_len: int, resample: str = "BILINEAR") -> Variable:
    """`image_resize` that makes the shorter side `out_short_len` long and keeps the ratio.

    ValueError for an input of other than four dimensions.
    """
    if len(input.shape) != 4:
        raise ValueError(f"image_resize_short takes 4 dimensions, not {list(input.shape)}")
    sides: Sequence[int] = input.shape[2:4]
    short = min(sides)
    sizes = [int(side * (out_short_len / short) + 0.5) for side in sides]
    sizes[sides.index(short)] = out_short_len
    return image_resize(input=input, out_shape=sizes, resample=resample)
