"""multi_box_head: what SSD predicts from several feature maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from refluid.fluid.functions.detection.priors import prior_box
from refluid.fluid.functions.nn.convolution import conv2d
from refluid.fluid.functions.tensor.joining import concat
from refluid.fluid.functions.tensor.shaping import flatten, reshape, transpose
from refluid.ir.variable import Variable

__all__ = ["multi_box_head"]

Sizes = list[Any]


def _sizes_by_ratio(
    base: int, low: int | None, high: int | None, layers: int
) -> tuple[Sizes, Sizes]:
    """Smallest and largest box of each map: a tenth and a fifth, then from `low` to `high`."""
    if low is None or high is None:
        raise ValueError("multi_box_head: give min_sizes, or both min_ratio and max_ratio")
    step = math.floor((high - low) / (layers - 2))
    ratios = range(low, high + 1, step)
    smallest = [base * 0.10, *(base * ratio / 100.0 for ratio in ratios)]
    largest = [base * 0.20, *(base * (ratio + step) / 100.0 for ratio in ratios)]
    return smallest, largest


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _require(needed: Mapping[str, Any], optional: Mapping[str, Any], layers: int) -> None:
    entries = dict(needed) | {what: given for what, given in optional.items() if given}
    for what, given in entries.items():
        if not isinstance(given, list | tuple) or len(given) != layers:
            raise ValueError(
                f"multi_box_head: {what} must be a list of {layers} entries, one per input"
            )


def multi_box_head(
    inputs: Sequence[Variable],
    image: Variable,
    base_size: int,
    num_classes: int,
    aspect_ratios: Sequence[Any],
    min_ratio: int | None = None,
    max_ratio: int | None = None,
    min_sizes: Sequence[Any] | None = None,
    max_sizes: Sequence[Any] | None = None,
    steps: Sequence[float] | None = None,
    step_w: Sequence[float] | None = None,
    step_h: Sequence[float] | None = None,
    offset: float = 0.5,
    variance: Sequence[float] = (0.1, 0.1, 0.2, 0.2),
    flip: bool = True,
    clip: bool = False,
    kernel_size: int = 1,
    pad: int = 0,
    stride: int = 1,
    name: str | None = None,
    min_max_aspect_ratios_order: bool = False,
) -> tuple[Variable, Variable, Variable, Variable]:
    """Locations (N, P, 4), confidences (N, P, classes), priors (P, 4) and their variances (P, 4).

    inputs: maps (N, C, H, W), each with an entry of aspect_ratios and, unless there are more than
    two maps and `min_ratio` and `max_ratio` (percent of `base_size`) say the sizes, of min_sizes
    and max_sizes. steps, or step_w and step_h: pixels from cell to cell per map. kernel_size, pad
    and stride are the convolutions'. ValueError where numbers of entries differ.
    """
    layers = len(inputs)
    if min_sizes is None and max_sizes is None and layers > 2:
        min_sizes, max_sizes = _sizes_by_ratio(base_size, min_ratio, max_ratio, layers)
    step_w, step_h = (steps, steps) if steps else (step_w, step_h)
    optional = {"max_sizes": max_sizes, "step_w": step_w, "step_h": step_h}
    _require({"aspect_ratios": aspect_ratios, "min_sizes": min_sizes}, optional, layers)
    options: dict[str, Any] = {"flip": flip, "clip": clip, "variance": variance, "offset": offset}
    options["min_max_aspect_ratios_order"] = min_max_aspect_ratios_order
    convolution = {"filter_size": kernel_size, "padding": pad, "stride": stride}
    parts = []
    for index, input in enumerate(inputs):
        own: dict[str, Any] = options | {
            "min_sizes": _listed(min_sizes[index]) if min_sizes else [],
            "max_sizes": _listed(max_sizes[index]) if max_sizes else None,
            "aspect_ratios": _listed(aspect_ratios[index]),
            "steps": [one[index] if one else 0.0 for one in (step_w, step_h)],
        }
        boxes = prior_box(input, image, **own)
        parts.append(boxes + _predicted(input, boxes[0].shape[2], num_classes, convolution))
    return _joined(parts, num_classes)


def _predicted(
    input: Variable, priors: int, num_classes: int, convolution: Mapping[str, Any]
) -> tuple[Variable, ...]:
    """Locations and confidences (N, H * W * priors * (4 or classes)) of a map."""
    return tuple(
        flatten(_upright(conv2d(input, priors * width, **convolution)))
        for width in (4, num_classes)
    )


def _upright(x: Variable) -> Variable:
    """(N, C, H, W) -> (N, H, W, C)."""
    return transpose(x, perm=[0, 2, 3, 1])


def _joined(
    parts: list[tuple[Variable, ...]], num_classes: int
) -> tuple[Variable, Variable, Variable, Variable]:
    """Of (priors, variances, locations, confidences) per map those of all maps together.

    As in Fluid, those of a single map keep their shapes.
    """
    if len(parts) == 1:
        boxes, variances, locations, confidences = parts[0]
        return locations, confidences, boxes, variances
    rows = [[flatten(one, axis=3) for one in part[:2]] for part in parts]
    boxes, variances = (concat([row[column] for row in rows]) for column in (0, 1))
    locations, confidences = (
        reshape(concat([part[column] for part in parts], axis=1), shape=[0, -1, width])
        for column, width in ((2, 4), (3, num_classes))
    )
    return locations, confidences, boxes, variances
