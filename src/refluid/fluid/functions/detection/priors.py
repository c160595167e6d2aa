"""Boxes laid over every cell of a feature map. All results have stop_gradient set."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.build import How, op
from refluid.ir.variable import Variable

__all__ = ["anchor_generator", "density_prior_box", "prior_box"]

Numbers = float | Sequence[float]
_VARIANCE = (0.1, 0.1, 0.2, 0.2)


def _steps(steps: Numbers) -> tuple[float, float]:
    found = floats(steps)
    if len(found) != 2:
        raise ValueError(f"steps must be (step width, step height), not {steps!r}")
    return found[0], found[1]


def prior_box(
    input: Variable,
    image: Variable,
    min_sizes: Numbers,
    max_sizes: Numbers | None = None,
    aspect_ratios: Numbers = (1.0,),
    variance: Sequence[float] = _VARIANCE,
    flip: bool = False,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable]:
    """Prior boxes of SSD and their variances, both (H, W, priors, 4), in parts of the image.

    input (N, C, H, W), of whose cells the boxes have the centers; image (N, C, height, width).
    Each min size gives a box per aspect ratio (and its inverse, if `flip`), and with a max size
    a square between the two. clip: boxes end at the borders. steps: pixels from cell to cell
    (width, height), of which 0 means the ratio of image and map. offset: of the center, in
    cells. min_max_aspect_ratios_order: the square comes second, as in Caffe.

    Raises ValueError for steps that are not two.
    """
    step_w, step_h = _steps(steps)
    attrs = {
        "min_sizes": floats(min_sizes),
        "aspect_ratios": floats(aspect_ratios),
        "variances": list(variance),
        "flip": flip,
        "clip": clip,
        "step_w": step_w,
        "step_h": step_h,
        "offset": offset,
        "min_max_aspect_ratios_order": min_max_aspect_ratios_order,
    }
    largest = [] if max_sizes is None else floats(max_sizes)
    if largest and largest[0] > 0:
        attrs["max_sizes"] = largest
    kinds = dict.fromkeys(("Boxes", "Variances"), input.dtype)
    inputs = {"Input": input, "Image": image}
    boxes, variances = op("prior_box", inputs, attrs, kinds, stop_gradient=True, name=name)
    return boxes, variances


def density_prior_box(
    input: Variable,
    image: Variable,
    densities: Sequence[int] | None = None,
    fixed_sizes: Sequence[float] | None = None,
    fixed_ratios: Sequence[float] | None = None,
    variance: Sequence[float] = _VARIANCE,
    clip: bool = False,
    steps: Sequence[float] = (0.0, 0.0),
    offset: float = 0.5,
    flatten_to_2d: bool = False,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Prior boxes laid densely over each cell, and their variances, both (H, W, priors, 4).

    A size of `fixed_sizes` is laid density * density times, once for each of `fixed_ratios`.
    flatten_to_2d: both are (H * W * priors, 4). The rest as of `prior_box`.

    Raises TypeError where sizes, ratios or densities are no lists, ValueError where sizes and
    densities differ in number, or for steps that are not two.
    """
    lists = {"densities": densities, "fixed_sizes": fixed_sizes, "fixed_ratios": fixed_ratios}
    for what, given in lists.items():
        if not isinstance(given, list | tuple):
            raise TypeError(f"density_prior_box: {what} must be a list or a tuple, not {given!r}")
    if len(densities or ()) != len(fixed_sizes or ()):
        raise ValueError("density_prior_box: densities and fixed_sizes must be of one length")
    step_w, step_h = _steps(steps)
    attrs = {
        "variances": list(variance),
        "clip": clip,
        "step_w": step_w,
        "step_h": step_h,
        "offset": offset,
        "densities": list(densities or ()),
        "fixed_sizes": floats(fixed_sizes or ()),
        "fixed_ratios": floats(fixed_ratios or ()),
        "flatten_to_2d": flatten_to_2d,
    }
    how: How = {"stop_gradient": True, "name": name}
    kinds = dict.fromkeys(("Boxes", "Variances"), input.dtype)
    inputs = {"Input": input, "Image": image}
    boxes, variances = op("density_prior_box", inputs, attrs, kinds, **how)
    return boxes, variances


def anchor_generator(
    input: Variable,
    anchor_sizes: Numbers | None = None,
    aspect_ratios: Numbers | None = None,
    variance: Sequence[float] = _VARIANCE,
    stride: Sequence[float] | None = None,
    offset: float = 0.5,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Anchors of Faster R-CNN and their variances, both (H, W, ratios * sizes, 4), in pixels.

    input (N, C, H, W). anchor_sizes: roots of the areas in pixels; aspect_ratios: height by
    width; stride: pixels from cell to cell (width, height). ValueError for another stride.
    """
    if not isinstance(stride, list | tuple) or len(stride) != 2:
        raise ValueError(f"anchor_generator: stride must be (width, height), not {stride!r}")
    attrs = {
        "anchor_sizes": floats(() if anchor_sizes is None else anchor_sizes),
        "aspect_ratios": floats(() if aspect_ratios is None else aspect_ratios),
        "variances": list(variance),
        "stride": floats(stride),
        "offset": offset,
    }
    how: How = {"stop_gradient": True, "name": name}
    kinds = dict.fromkeys(("Anchors", "Variances"), input.dtype)
    anchors, variances = op("anchor_generator", {"Input": input}, attrs, kinds, **how)
    return anchors, variances


def floats(given: float | Sequence[float]) -> list[float]:
    """A list of floats; a single number is a list of one."""
    return [float(one) for one in ([given] if isinstance(given, int | float) else given)]
