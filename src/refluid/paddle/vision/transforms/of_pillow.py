"""Pillow's images changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageEnhance, ImageOps

from refluid.paddle.vision.transforms import geometry

_METHODS: dict[str, Any] = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "lanczos": Image.Resampling.LANCZOS,
    "hamming": Image.Resampling.HAMMING,
}


def size(img: Any) -> tuple[int, int]:
    """Width and height."""
    width, height = img.size
    return width, height


def resize(img: Any, given: Any, interpolation: str) -> Any:
    """In another size; as it is where that is the size of the shorter edge."""
    width, height = img.size
    if isinstance(given, int) and given == min(width, height):
        return img
    return img.resize(geometry.size_after(given, width, height)[::-1], _METHODS[interpolation])


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A part of it."""
    return img.crop((left, top, left + width, top + height))


def hflip(img: Any) -> Any:
    """Left for right."""
    return img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)


def vflip(img: Any) -> Any:
    """Top for bottom."""
    return img.transpose(Image.Transpose.FLIP_TOP_BOTTOM)


def pad(img: Any, padding: Any, fill: Any, mode: str) -> Any:
    """With a border."""
    left, top, right, bottom = borders = geometry.borders(padding)
    if mode == "constant":
        filled = tuple(fill) if isinstance(fill, list | tuple) else fill
        return ImageOps.expand(img, border=borders, fill=filled)
    palette = img.getpalette() if img.mode == "P" else None
    values = np.asarray(img)
    widths = ((top, bottom), (left, right), *[(0, 0)] * (values.ndim - 2))
    made = Image.fromarray(np.pad(values, widths, mode=mode))  # type: ignore[call-overload]
    if palette is not None:
        made.putpalette(palette)
    return made


def _color(img: Any, fill: Any) -> Any:
    if isinstance(fill, int | float):
        return int(fill) if len(img.getbands()) == 1 else (int(fill),) * len(img.getbands())
    return tuple(int(one) for one in fill)


def brightness(img: Any, factor: float) -> Any:
    """Brighter, by a factor."""
    return ImageEnhance.Brightness(img).enhance(factor)


def contrast(img: Any, factor: float) -> Any:
    """With more contrast, by a factor."""
    return ImageEnhance.Contrast(img).enhance(factor)


def saturation(img: Any, factor: float) -> Any:
    """With more colour, by a factor."""
    return ImageEnhance.Color(img).enhance(factor)


def hue(img: Any, factor: float) -> Any:
    """With its colours turned; images without colours as they are."""
    mode = img.mode
    if mode in ("L", "1", "I", "F"):
        return img
    h, s, v = img.convert("HSV").split()
    turned = np.asarray(h) + np.array(factor * 255).astype("int64").astype("uint8")
    return Image.merge("HSV", (Image.fromarray(turned, "L"), s, v)).convert(mode)


def gray(img: Any, channels: int) -> Any:
    """Without colours."""
    plain = img.convert("L")
    return plain if channels == 1 else Image.merge("RGB", (plain, plain, plain))


def rotate(img: Any, angle: float, interpolation: str, expand: bool, center: Any, fill: Any) -> Any:
    """Turned, counter-clockwise."""
    color = _color(img, fill)
    return img.rotate(angle, _METHODS[interpolation], expand, center, fillcolor=color)


def affine(img: Any, matrix: Sequence[float], interpolation: str, fill: Any) -> Any:
    """By a matrix that says where each element comes from."""
    how = _METHODS[interpolation]
    return img.transform(img.size, Image.Transform.AFFINE, matrix, how, fillcolor=_color(img, fill))


def perspective(img: Any, sources: Any, targets: Any, interpolation: str, fill: Any) -> Any:
    """With its four corners elsewhere."""
    matrix = geometry.perspective_matrix(targets, sources)
    how, kind = _METHODS[interpolation], Image.Transform.PERSPECTIVE
    return img.transform(img.size, kind, matrix, how, fillcolor=_color(img, fill))


def erase(img: Any, top: int, left: int, height: int, width: int, value: Any, inplace: bool) -> Any:
    """With a part overwritten."""
    values = np.array(img)
    values[top : top + height, left : left + width] = value
    return Image.fromarray(values)
