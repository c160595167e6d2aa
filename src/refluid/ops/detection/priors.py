"""Boxes laid over every cell of a feature map: priors of SSD, anchors of Faster R-CNN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import Check, above, each, not_empty
from refluid.ir.operator import Operator
from refluid.ops.bounded import Images, Variances
from refluid.ops.detection.cells import numbers
from refluid.ops.infer import infer_by_probing
from refluid.ops.registry import OperatorDef, operator

_SAME = 1e-6
Sizes = list[tuple[float, float]]
Ratios = Annotated[Sequence[float], each(above(0.0))]


def _cells(Input: Tensor, steps: tuple[float, float], shift: tuple[float, float]) -> Tensor:
    """The points (H, W, 1, 2) at x = column * step + shift, and y likewise."""
    height, width = Input.shape[2:]
    x = numbers(width, Input) * steps[0] + shift[0]
    y = numbers(height, Input) * steps[1] + shift[1]
    across, down = x[None, :].expand(height, width), y[:, None].expand(height, width)
    return torch.stack((across, down), -1).unsqueeze(2)


def _steps(Input: Tensor, Image: Tensor, step_w: float, step_h: float) -> tuple[float, float]:
    """The distance of cells in pixels, as given or as the sizes of image and map have it."""
    if step_w and step_h:
        return step_w, step_h
    return Image.shape[3] / Input.shape[3], Image.shape[2] / Input.shape[2]


def _pairs(Input: Tensor, sizes: Sequence[tuple[float, float]]) -> Tensor:
    return torch.tensor(sizes, dtype=Input.dtype, device=Input.device).reshape(-1, 2)


def _spread(boxes: Tensor, variances: Sequence[float]) -> Tensor:
    """The variances (4) once per box."""
    return boxes.new_tensor(variances).expand(boxes.shape).contiguous()


def _ratios(given: Sequence[float], flip: bool) -> list[float]:
    """1, then the ratios not yet seen, each followed by its inverse if `flip`."""
    found = [1.0]
    for ratio in given:
        if all(abs(ratio - one) >= _SAME for one in found):
            found += [ratio, 1 / ratio] if flip else [ratio]
    return found


def _prior_sizes(
    min_sizes: Sequence[float], max_sizes: Sequence[float], ratios: list[float], max_second: bool
) -> Sizes:
    if max_sizes and len(max_sizes) != len(min_sizes):
        raise EnforceNotMet(
            f"there have to be as many max_sizes as min_sizes, but they are {list(max_sizes)} and "
            f"{list(min_sizes)}"
        )
    if any(high <= low for low, high in zip(min_sizes, max_sizes, strict=False)):
        raise EnforceNotMet(
            f"each of max_sizes {list(max_sizes)} has to be greater than that of min_sizes "
            f"{list(min_sizes)} in its place: a square between the two is laid too"
        )
    sizes: Sizes = []
    for position, size in enumerate(min_sizes):
        own = [(size * math.sqrt(ratio), size / math.sqrt(ratio)) for ratio in ratios]
        if max_sizes:
            between = math.sqrt(size * max_sizes[position])
            own.insert(1 if max_second else len(own), (between, between))
        sizes += own
    return sizes


@operator(
    "prior_box",
    outputs="Boxes Variances",
    uses=None,
    lod="",
    extra={"use_mkldnn": False, "use_quantizer": False},
)
def prior_box(
    Input: Images,
    Image: Images,
    *,
    min_sizes: Sequence[float],
    max_sizes: Sequence[float] = (),
    aspect_ratios: Ratios,
    variances: Annotated[Sequence[float], Check("4 numbers", lambda values: len(values) == 4)],
    flip: bool = True,
    clip: bool = True,
    step_w: float = 0.0,
    step_h: float = 0.0,
    offset: float = 0.5,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Tensor, Tensor]:
    """Boxes (H, W, priors, 4) in parts of the image, around the centers of Input's cells.

    Each min size gives a box per aspect ratio, and with a max size a square between the two.
    """
    steps = _steps(Input, Image, step_w, step_h)
    ratios = _ratios(aspect_ratios, flip)
    sizes = _prior_sizes(min_sizes, max_sizes, ratios, min_max_aspect_ratios_order)
    center = _cells(Input, steps, (offset * steps[0], offset * steps[1]))
    half = _pairs(Input, sizes) / 2
    scale = _pairs(Input, [(Image.shape[3], Image.shape[2])])
    boxes = torch.cat(((center - half) / scale, (center + half) / scale), -1)
    if clip:
        boxes = boxes.clamp(0, 1)
    return boxes, _spread(boxes, variances)


def _infer_density(definition: OperatorDef, op: Operator) -> None:
    """As computed, but boxes in rows are of unknown number."""
    infer_by_probing(definition, op)
    if op.attr("flatten_to_2d"):
        for name in op.output_arg_names:
            op.block.var_recursive(name).describe(shape=(-1, 4), dtype=None)


@operator("density_prior_box", outputs="Boxes Variances", uses=None, lod="", infer=_infer_density)
def density_prior_box(
    Input: Images,
    Image: Images,
    *,
    variances: Variances,
    clip: bool = True,
    flatten_to_2d: bool = False,
    step_w: float = 0.0,
    step_h: float = 0.0,
    offset: float = 0.5,
    fixed_sizes: Annotated[Sequence[float], each(above(0.0))] = (),
    fixed_ratios: Ratios = (),
    densities: Annotated[Sequence[int], each(above(0))] = (),
) -> tuple[Tensor, Tensor]:
    """Boxes (H, W, priors, 4) in parts of the image; as rows (all, 4) if `flatten_to_2d`.

    A size of density d is laid d * d times over each cell, once per ratio. Boxes end at the
    image's borders.
    """
    if len(densities) != len(fixed_sizes):
        raise EnforceNotMet(
            f"there have to be as many densities as fixed_sizes, but they are {list(densities)} "
            f"and {list(fixed_sizes)}"
        )
    steps = _steps(Input, Image, step_w, step_h)
    average = int((steps[0] + steps[1]) * 0.5)
    sizes: Sizes = []
    moves: Sizes = []
    for size, density in zip(fixed_sizes, densities, strict=True):
        shift = average // density
        places = [(shift - average) / 2 + shift * place for place in range(density)]
        grid = [(x, y) for y in places for x in places]
        for ratio in fixed_ratios:
            root = math.sqrt(ratio)
            sizes += [(size * root, size / root)] * len(grid)
            moves += grid
    center = _cells(Input, steps, (offset * steps[0], offset * steps[1])) + _pairs(Input, moves)
    half = _pairs(Input, sizes) / 2
    scale = _pairs(Input, [(Image.shape[3], Image.shape[2])])
    low, high = ((center - half) / scale).clamp(min=0), ((center + half) / scale).clamp(max=1)
    boxes = torch.cat((low, high), -1)
    if clip:
        boxes = boxes.clamp(0, 1)
    if flatten_to_2d:
        boxes = boxes.reshape(-1, 4)
    return boxes, _spread(boxes, variances)


@operator("anchor_generator", outputs="Anchors Variances", uses=None, lod="")
def anchor_generator(
    Input: Images,
    *,
    anchor_sizes: Annotated[Sequence[float], not_empty, each(above(0.0))],
    aspect_ratios: Ratios,
    variances: Variances,
    stride: Annotated[Sequence[float], each(above(0.0), 2)] = (16.0, 16.0),
    offset: float = 0.5,
) -> tuple[Tensor, Tensor]:
    """Anchors (H, W, ratios * sizes, 4) in pixels: boxes of area size², height / width a ratio.

    Their sides are multiples of whole pixels of a stride by stride box of that ratio.
    """
    across, down = stride
    sizes: Sizes = []
    for ratio in aspect_ratios:
        width = math.floor(math.sqrt(across * down / ratio) + 0.5)
        height = math.floor(width * ratio + 0.5)
        sizes += [(size / across * width, size / down * height) for size in anchor_sizes]
    center = _cells(Input, (across, down), (offset * (across - 1), offset * (down - 1)))
    half = (_pairs(Input, sizes) - 1) / 2
    anchors = torch.cat((center - half, center + half), -1)
    return anchors, _spread(anchors, variances)
