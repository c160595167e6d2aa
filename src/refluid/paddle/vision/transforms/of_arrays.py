"""Images as arrays (H, W, C) changed: by OpenCV where it is installed, else by Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from refluid.paddle.vision.transforms import geometry

Array = np.ndarray[Any, Any]
_METHODS = {
    "nearest": "INTER_NEAREST",
    "bilinear": "INTER_LINEAR",
    "area": "INTER_AREA",
    "bicubic": "INTER_CUBIC",
    "lanczos": "INTER_LANCZOS4",
}
# What OpenCV weights red, green and blue by, of 2 ** 14.
_MIDDLE = 74.0  # the brightness that contrast leaves as it is
_GRAY = np.array([4899, 9617, 1868])


@cache
def _cv2() -> Any:
    """OpenCV; None where it isn't installed."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2


def _by_pillow(img: Array, name: str, *args: Any) -> Array:
    from PIL import Image

    from refluid.paddle.vision.transforms import of_pillow

    flat = img[:, :, 0] if img.ndim == 3 and img.shape[2] == 1 else img
    return _like(img, np.asarray(getattr(of_pillow, name)(Image.fromarray(flat), *args)))


def _like(img: Array, found: Array) -> Array:
    """OpenCV and Pillow drop a dimension of one channel."""
    return found[:, :, None] if img.ndim == 3 and found.ndim == 2 else found


def size(img: Array) -> tuple[int, int]:
    """Width and height."""
    return int(img.shape[1]), int(img.shape[0])


def resize(img: Array, given: Any, interpolation: str) -> Array:
    """In another size; as it is where that is the size of the shorter edge."""
    height, width = img.shape[:2]
    if isinstance(given, int) and given == min(width, height):
        return img
    cv2 = _cv2()
    if cv2 is None:
        return _by_pillow(img, "resize", given, interpolation)
    wanted = geometry.size_after(given, width, height)[::-1]
    how = getattr(cv2, _METHODS[interpolation])
    return _like(img, cv2.resize(img, dsize=wanted, interpolation=how))


def crop(img: Array, top: int, left: int, height: int, width: int) -> Array:
    """A part of it."""
    return img[top : top + height, left : left + width]


def hflip(img: Array) -> Array:
    """Left for right."""
    return np.ascontiguousarray(img[:, ::-1])


def vflip(img: Array) -> Array:
    """Top for bottom."""
    return np.ascontiguousarray(img[::-1])


def pad(img: Array, padding: Any, fill: Any, mode: str) -> Array:
    """With a border."""
    left, top, right, bottom = geometry.borders(padding)
    widths = ((top, bottom), (left, right), *[(0, 0)] * (img.ndim - 2))
    if mode != "constant":
        return np.pad(img, widths, mode=mode)  # type: ignore[call-overload,no-any-return]
    height, width = img.shape[:2]
    made = np.zeros((top + height + bottom, left + width + right, *img.shape[2:]), img.dtype)
    if isinstance(fill, int | float) and img.ndim == 3:
        made[..., 0] = fill  # OpenCV and Pillow take one number as that of the first channel
    else:
        made[:] = fill
    made[top : top + height, left : left + width] = img
    return made


def _rounded(values: Array, kind: Any) -> Array:
    return np.clip(values, 0, 255).astype(kind)


def brightness(img: Array, factor: float) -> Array:
    """Brighter, by a factor."""
    return _rounded(img * float(factor), img.dtype)


def contrast(img: Array, factor: float) -> Array:
    """With more contrast, by a factor."""
    return _rounded((img.astype("float64") - _MIDDLE) * factor + _MIDDLE, img.dtype)


def saturation(img: Array, factor: float) -> Array:
    """With more colour, by a factor; blue is first."""
    plain = gray(img[..., ::-1], 1)
    return _rounded(img * float(factor) + plain * (1.0 - factor), img.dtype)


def hue(img: Array, factor: float) -> Array:
    """With its colours turned; blue is first."""
    cv2 = _cv2()
    if cv2 is None:
        return _by_pillow(img[..., ::-1], "hue", factor)[..., ::-1]
    turned = cv2.cvtColor(img, cv2.COLOR_BGR2HSV_FULL)
    turned[..., 0] += np.array(factor * 255).astype("int64").astype("uint8")
    found: Array = cv2.cvtColor(turned, cv2.COLOR_HSV2BGR_FULL)
    return found.astype(img.dtype)


def gray(img: Array, channels: int) -> Array:
    """Without colours."""
    if img.ndim == 2 or img.shape[2] == 1:
        plain = img.reshape(*img.shape[:2], 1)
    elif img.dtype == np.uint8:
        plain = ((img.astype("int64") @ _GRAY + 8192) >> 14).astype("uint8")[..., None]
    else:
        plain = (img @ (np.array([0.299, 0.587, 0.114], img.dtype)))[..., None]
    return np.broadcast_to(plain, (*img.shape[:2], channels)).copy()


def rotate(
    img: Array, angle: float, interpolation: str, expand: bool, center: Any, fill: Any
) -> Array:
    """Turned, counter-clockwise."""
    cv2 = _cv2()
    if cv2 is None:
        return _by_pillow(img, "rotate", angle, interpolation, expand, center, fill)
    height, width = img.shape[:2]
    middle = (width * 0.5, height * 0.5) if center is None else center
    matrix = cv2.getRotationMatrix2D(middle, angle, 1)
    if expand:
        wide, high = geometry.expanded(width, height, angle)
        matrix[:, 2] += (wide - width) * 0.5, (high - height) * 0.5
        width, height = wide, high
    return _warped(cv2, cv2.warpAffine, img, matrix, (width, height), interpolation, fill)


def affine(img: Array, matrix: Sequence[float], interpolation: str, fill: Any) -> Array:
    """By a matrix that says where each element comes from."""
    cv2 = _cv2()
    if cv2 is None:
        return _by_pillow(img, "affine", matrix, interpolation, fill)
    back = np.vstack([np.reshape(matrix, (2, 3)), [0, 0, 1]])
    back[:2, 2] += back[:2, :2] @ [0.5, 0.5] - 0.5  # OpenCV counts from the middle of an element
    forward = np.linalg.inv(back)[:2]
    return _warped(cv2, cv2.warpAffine, img, forward, size(img), interpolation, fill)


def perspective(img: Array, sources: Any, targets: Any, interpolation: str, fill: Any) -> Array:
    """With its four corners elsewhere."""
    cv2 = _cv2()
    if cv2 is None:
        return _by_pillow(img, "perspective", sources, targets, interpolation, fill)
    corners = (np.asarray(one, dtype="float32") for one in (sources, targets))
    matrix = cv2.getPerspectiveTransform(*corners)
    return _warped(cv2, cv2.warpPerspective, img, matrix, size(img), interpolation, fill)


def _warped(
    cv2: Any, warp: Any, img: Array, matrix: Any, wanted: Any, interpolation: str, fill: Any
) -> Array:
    color = fill if isinstance(fill, int | float) else tuple(fill)
    how = getattr(cv2, _METHODS[interpolation])
    return _like(img, warp(img, matrix, wanted, flags=how, borderValue=color))


def erase(
    img: Array, top: int, left: int, height: int, width: int, value: Any, inplace: bool
) -> Array:
    """With a part overwritten."""
    found = img if inplace else img.copy()
    found[top : top + height, left : left + width] = value
    return found
