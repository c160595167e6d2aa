"""Images as tensors (C, H, W), or several (N, C, H, W), changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.ir.variable import Variable
from refluid.paddle import nn as layers
from refluid.paddle import tensor as functions
from refluid.paddle.vision.transforms import geometry

tensor: Any = functions
nn: Any = layers
_PADDED = {"constant": "constant", "edge": "replicate", "reflect": "reflect"}


def size(img: Variable) -> tuple[int, int]:
    """Width and height."""
    return int(img.shape[-1]), int(img.shape[-2])


def _batched(img: Variable) -> Any:
    return img if len(img.shape) == 4 else tensor.unsqueeze(img, 0)


def _as_given(img: Variable, found: Variable) -> Any:
    return found if len(img.shape) == 4 else tensor.squeeze(found, 0)


def resize(img: Variable, given: Any, interpolation: str) -> Any:
    """In another size; as it is where that is the size of the shorter edge."""
    width, height = size(img)
    if isinstance(given, int) and given == min(width, height):
        return img
    wanted = list(geometry.size_after(given, width, height))
    return _as_given(
        img, nn.functional.interpolate(_batched(img), wanted, mode=interpolation.lower())
    )


def crop(img: Variable, top: int, left: int, height: int, width: int) -> Any:
    """A part of it."""
    return img[..., top : top + height, left : left + width]


def hflip(img: Variable) -> Any:
    """Left for right."""
    return tensor.flip(img, [-1])


def vflip(img: Variable) -> Any:
    """Top for bottom."""
    return tensor.flip(img, [-2])


def pad(img: Variable, padding: Any, fill: Any, mode: str) -> Any:
    """With a border."""
    left, top, right, bottom = geometry.borders(padding)
    if mode not in _PADDED:
        raise ValueError(f"tensors are padded by {', '.join(_PADDED)}, not by {mode!r}")
    around = [left, right, top, bottom]
    return _as_given(img, nn.functional.pad(_batched(img), around, _PADDED[mode], value=fill))


def _limit(img: Variable) -> float:
    return 1.0 if tensor_is_floating(img) else 255.0


def tensor_is_floating(img: Variable) -> bool:
    """Whether its elements are fractions of the brightest rather than 0 to 255."""
    from refluid.paddle.framework.dtypes import is_floating_point

    return bool(is_floating_point(img))


def _blended(img: Variable, other: Any, factor: float) -> Any:
    mixed = tensor.cast(img, "float32") * factor + tensor.cast(other, "float32") * (1.0 - factor)
    return tensor.cast(tensor.clip(mixed, 0.0, _limit(img)), img.dtype)


def brightness(img: Variable, factor: float) -> Any:
    """Brighter, by a factor."""
    return _blended(img, tensor.zeros_like(img), factor)


def contrast(img: Variable, factor: float) -> Any:
    """With more contrast, by a factor."""
    plain = tensor.cast(gray(img, 1), "float32")
    return _blended(img, tensor.mean(plain, axis=(-3, -2, -1), keepdim=True), factor)


def saturation(img: Variable, factor: float) -> Any:
    """With more colour, by a factor."""
    return _blended(img, gray(img, 1), factor)


def hue(img: Variable, factor: float) -> Any:
    """With its colours turned."""
    values = img.numpy().astype("float64") / _limit(img)
    turned = _turned(np.moveaxis(values, -3, -1), factor) * _limit(img)
    if not tensor_is_floating(img):
        turned = np.round(turned)
    found = np.moveaxis(turned, -1, -3).astype(img.numpy().dtype)
    return tensor.to_tensor(found)


def _turned(rgb: Any, factor: float) -> Any:
    """Colours (.., 3) between 0 and 1 with their hue moved by a part of the circle."""
    high, low = rgb.max(-1), rgb.min(-1)
    span = np.where(high == low, 1.0, high - low)
    r, g, b = np.moveaxis(rgb, -1, 0)
    h = np.where(
        high == r,
        ((g - b) / span) % 6,
        np.where(high == g, (b - r) / span + 2, (r - g) / span + 4),
    )
    h = (np.where(high == low, 0.0, h) / 6 + factor) % 1.0 * 6
    chroma = high - low
    channels = [
        high - chroma * np.clip(np.minimum((n + h) % 6, 4 - (n + h) % 6), 0, 1) for n in (5, 3, 1)
    ]
    return np.stack(channels, -1)


def gray(img: Variable, channels: int) -> Any:
    """Without colours."""
    weights = tensor.to_tensor(np.array([0.2989, 0.587, 0.114], "float32").reshape(3, 1, 1))
    plain = tensor.sum(tensor.cast(img, "float32") * weights, axis=-3, keepdim=True)
    several = tensor.concat([plain] * channels, axis=-3) if channels > 1 else plain
    return tensor.cast(several, img.dtype)


def rotate(
    img: Variable, angle: float, interpolation: str, expand: bool, center: Any, fill: Any
) -> Any:
    """Turned, counter-clockwise."""
    width, height = size(img)
    offset = (0.0, 0.0) if center is None else (center[0] - width * 0.5, center[1] - height * 0.5)
    matrix = geometry.inverse_affine(offset, -angle, (0.0, 0.0), 1.0, (0.0, 0.0))
    wide, high = geometry.expanded(width, height, angle, 0.0) if expand else (width, height)
    return _sampled(img, matrix, (wide, high), interpolation, fill)


def affine(img: Variable, matrix: Sequence[float], interpolation: str, fill: Any) -> Any:
    """By a matrix that says where each element comes from, from the middle of the image."""
    return _sampled(img, matrix, size(img), interpolation, fill)


def perspective(img: Variable, sources: Any, targets: Any, interpolation: str, fill: Any) -> Any:
    """With its four corners elsewhere."""
    width, height = size(img)
    a, b, c, d, e, f, g, h = geometry.perspective_matrix(targets, sources)
    x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
    depth = g * x + h * y + 1.0
    places = (a * x + b * y + c) / depth - width * 0.5, (d * x + e * y + f) / depth - height * 0.5
    return _taken(img, places, interpolation, fill)


def _sampled(
    img: Variable, matrix: Sequence[float], wanted: tuple[int, int], interpolation: str, fill: Any
) -> Any:
    a, b, c, d, e, f = matrix
    columns, rows = (np.arange(one) + 0.5 - one * 0.5 for one in wanted)
    x, y = np.meshgrid(columns, rows)
    return _taken(img, (a * x + b * y + c, d * x + e * y + f), interpolation, fill)


def _taken(img: Variable, places: Any, interpolation: str, fill: Any) -> Any:
    """Elements at places, which count from the middle of the image; `fill` where it has none."""
    width, height = size(img)
    grid = np.stack([places[0] / (width * 0.5), places[1] / (height * 0.5)], -1)
    images = tensor.cast(_batched(img), "float32")
    spread = np.broadcast_to(grid.astype("float32"), (images.shape[0], *grid.shape)).copy()
    whole = tensor.concat([images, tensor.ones_like(images[:, :1])], axis=1)
    found = nn.functional.grid_sample(
        whole, tensor.to_tensor(spread), interpolation, "zeros", align_corners=False
    )
    values, there = found[:, :-1], found[:, -1:]
    color = np.broadcast_to(np.asarray(fill, "float32"), (images.shape[1],)).reshape(1, -1, 1, 1)
    if interpolation == "nearest":
        there = tensor.cast(there > 0.5, "float32")
    filled = values * there + (1.0 - there) * tensor.to_tensor(color.copy())
    if not tensor_is_floating(img):
        filled = tensor.round(filled)
    return _as_given(img, tensor.cast(filled, img.dtype))


def erase(
    img: Variable, top: int, left: int, height: int, width: int, value: Any, inplace: bool
) -> Any:
    """With a part overwritten."""
    values = img.numpy()
    given = value.numpy() if isinstance(value, Variable) else value
    values[..., top : top + height, left : left + width] = given
    if not inplace:
        return tensor.to_tensor(values)
    img.set_value(values)
    return img
