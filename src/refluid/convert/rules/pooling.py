"""Pooling and interpolation of images."""

from __future__ import annotations

from refluid.convert.rules.layers import channels_first, channels_last, pair
from refluid.convert.site import Site
from refluid.convert.table import converts


@converts("pool2d", "pool3d")
def pool(site: Site) -> None:
    kind, dims = site.attr("pooling_type", "max"), int(site.op.type[4])
    last = site.attr("data_format", "NCHW") in ("NHWC", "NDHWC")
    site.require(not last or dims == 2, "channels last")
    x = channels_first(site.x(), last) if last else site.x()
    sizes = [int(one) for one in site.attr("ksize")]
    if site.attr("global_pooling") or (site.attr("adaptive") and set(sizes) == {1}):
        axes = ", ".join(str(one) for one in range(2, 2 + dims))
        method = "amax" if kind == "max" else "mean"
        site.give(channels_last(f"{x}.{method}(({axes}), keepdim=True)", last))
        return
    if site.attr("adaptive"):
        text = f"F.adaptive_{kind}_pool{dims}d({x}, {pair(sizes)})"
        site.give(channels_last(text, last))
        return
    x = x if last else site.arg()
    strides = [int(one) for one in site.attr("strides")]
    paddings = _paddings(site, sizes, strides, dims)
    images = site.shape("X")[1:-1] if last else site.shape("X")[2:]
    if not any(paddings) and all(
        0 < size < window < size + stride
        for size, window, stride in zip(images, sizes, strides, strict=True)
    ):  # one window, larger than the image
        axes = ", ".join(str(one) for one in range(2, 2 + dims))
        site.require(kind == "max" or site.attr("exclusive", True), "a mean of more than the image")
        method = "amax" if kind == "max" else "mean"
        site.give(channels_last(f"{site.x()}.{method}(({axes}), keepdim=True)", last))
        return
    for size, window, padding in zip(images, sizes, paddings, strict=True):
        site.require(size < 0 or size + 2 * padding >= window, "a window larger than the image")
    if site.attr("ceil_mode") and any(paddings):
        _require_same_size(site, sizes, strides, paddings, last)
    options = f", stride={pair(strides)}" if strides != sizes else ""
    options += f", padding={pair(paddings)}" if any(paddings) else ""
    options += ", ceil_mode=True" if site.attr("ceil_mode") else ""
    if kind == "avg" and site.attr("exclusive", True) and (any(paddings)):
        options += ", count_include_pad=False"
    site.give(channels_last(f"F.{kind}_pool{dims}d({x}, {pair(sizes)}{options})", last))


def _require_same_size(
    site: Site, sizes: list[int], strides: list[int], paddings: list[int], last: bool
) -> None:
    """PyTorch leaves out a last window that lies in the padding, Fluid doesn't."""
    given = site.shape("X")[1:-1] if last else site.shape("X")[2:]
    for size, window, stride, padding in zip(given, sizes, strides, paddings, strict=True):
        site.require(size > 0, "sizes rounded up, with padding, of an image of unknown size")
        count = -(-(size + 2 * padding - window) // stride) + 1
        inside = (count - 1) * stride < size + padding
        site.require(inside, "a last window that lies in the padding")


def _paddings(site: Site, sizes: list[int], strides: list[int], dims: int) -> list[int]:
    algorithm, given = site.attr("padding_algorithm", "EXPLICIT"), list(site.attr("paddings", [0]))
    if algorithm == "VALID":
        return [0] * dims
    if algorithm == "SAME":
        odd = set(strides) == {1} and all(size % 2 for size in sizes)
        site.require(odd, "padding SAME with strides or an even window")
        return [(size - 1) // 2 for size in sizes]
    if len(given) == dims:
        return [int(one) for one in given]
    site.require(given[::2] == given[1::2], "paddings that differ at the ends")
    return [int(one) for one in given[::2]]


@converts("nearest_interp", "bilinear_interp", "bicubic_interp")
def interpolate(site: Site) -> None:
    computed = ("OutSize", "SizeTensor", "Scale")
    site.require(not any(site.has(slot) for slot in computed), "its size is computed")
    site.require(site.attr("data_layout", "NCHW") == "NCHW", "channels last")
    mode, corners = site.op.type.removesuffix("_interp"), site.attr("align_corners", True)
    height, width, scale = site.attr("out_h", 0), site.attr("out_w", 0), site.attr("scale", 0.0)
    known = scale and float(scale).is_integer()
    size = f"scale_factor={int(scale)}" if known else f"size=({height}, {width})"
    site.require(known or (height > 0 and width > 0), "its size is not known")
    if mode == "nearest":
        if corners:
            wanted = f"scale={int(scale)}" if known else f"size=({height}, {width})"
            site.give(f"nearest_corners({site.arg()}, {wanted})")
        else:
            site.give(f"F.interpolate({site.arg()}, {size})")
        return
    site.require(corners or site.attr("align_mode", 1) == 0, "align_mode 1")
    option = ", align_corners=True" if corners else ""
    site.give(f'F.interpolate({site.arg()}, {size}, mode="{mode}"{option})')
