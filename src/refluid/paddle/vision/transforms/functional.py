"""Images changed: Pillow's, arrays (H, W, C) and tensors (C, H, W)."""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.ir.variable import Variable
from refluid.paddle.tensor.creation import to_tensor as tensor_of
from refluid.paddle.vision.transforms import geometry

_HOME = "refluid.paddle.vision.transforms"
# Pillow's modes whose elements are not bytes.
_WIDE = {"I": np.int32, "I;16": np.int16, "F": np.float32}


def is_pillow(img: Any) -> bool:
    """Whether it is an image of Pillow's; Pillow need not be there to ask."""
    return type(img).__module__.startswith("PIL.")


# Transforms of the user's own ask by Paddle's names.
_is_pil_image = is_pillow


def _is_numpy_image(img: Any) -> bool:
    return isinstance(img, np.ndarray) and img.ndim in (2, 3)


def _is_tensor_image(img: Any) -> bool:
    return isinstance(img, Variable)


def kind_of(img: Any) -> Any:
    """The functions for an image of this kind. TypeError for what is no image."""
    if isinstance(img, Variable):
        name = "of_tensors"
    elif isinstance(img, np.ndarray):
        name = "of_arrays"
    elif is_pillow(img):
        name = "of_pillow"
    else:
        raise TypeError(
            f"img should be PIL Image or Tensor Image or ndarray with dim=[2 or 3]. Got {type(img)}"
        )
    return importlib.import_module(f"{_HOME}.{name}")


def size_of(img: Any) -> tuple[int, int]:
    """Width and height of an image."""
    found: tuple[int, int] = kind_of(img).size(img)
    return found


def to_tensor(pic: Any, data_format: str = "CHW") -> Variable:
    """A tensor of an image, (C, H, W) or (H, W, C). Bytes become fractions of 255.

    Raises TypeError for what is neither Pillow's nor an array, ValueError for another format.
    """
    if not (is_pillow(pic) or isinstance(pic, np.ndarray | Variable)):
        raise TypeError(f"pic should be PIL Image or ndarray with dim=[2 or 3], not {type(pic)}")
    if data_format not in ("CHW", "HWC"):
        raise ValueError(f"data_format should be CHW or HWC. Got {data_format}")
    if isinstance(pic, Variable):
        return pic
    if is_pillow(pic):
        values = np.array(pic, _WIDE.get(pic.mode, np.uint8), copy=True)
        values = 255 * values if pic.mode == "1" else values
    else:
        values = pic
    values = values[:, :, None] if values.ndim == 2 else values
    if data_format == "CHW":
        values = values.transpose(2, 0, 1)
    if values.dtype == np.uint8:
        return tensor_of(values.astype("float32") / np.float32(255.0))
    return tensor_of(np.ascontiguousarray(values))


def resize(img: Any, size: Any, interpolation: str = "bilinear") -> Any:
    """In another size: (height, width), or that of the shorter edge."""
    return kind_of(img).resize(img, size, interpolation)


def pad(img: Any, padding: Any, fill: Any = 0, padding_mode: str = "constant") -> Any:
    """With a border of so many elements: one number, (x, y), or (left, top, right, bottom).

    padding_mode: `constant` with `fill`, `edge`, `reflect` without the edge, `symmetric` with it.
    Raises TypeError and ValueError for others.
    """
    if not isinstance(padding, numbers.Number | list | tuple):
        raise TypeError("Got inappropriate padding arg")
    if not isinstance(fill, numbers.Number | str | list | tuple):
        raise TypeError("Got inappropriate fill arg")
    if not isinstance(padding_mode, str):
        raise TypeError("Got inappropriate padding_mode arg")
    if isinstance(padding, Sequence) and len(padding) not in (2, 4):
        raise ValueError(
            f"Padding must be an int or a 2, or 4 element tuple, not a {len(padding)} element tuple"
        )
    modes = ["constant", "edge", "reflect", "symmetric"]
    assert padding_mode in modes, (
        "Padding mode should be either constant, edge, reflect or symmetric"
    )
    return kind_of(img).pad(img, padding, fill, padding_mode)


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """The part that begins at (top, left)."""
    return kind_of(img).crop(img, top, left, height, width)


def center_crop(img: Any, output_size: Any) -> Any:
    """The middle, of (height, width) or of a square."""
    if isinstance(output_size, numbers.Number):
        output_size = (int(output_size), int(output_size))  # type: ignore[call-overload]
    width, height = size_of(img)
    high, wide = output_size
    top, left = round((height - high) / 2.0), round((width - wide) / 2.0)
    return crop(img, top, left, high, wide)


def hflip(img: Any) -> Any:
    """Left for right."""
    return kind_of(img).hflip(img)


def vflip(img: Any) -> Any:
    """Top for bottom."""
    return kind_of(img).vflip(img)


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Brighter: 0 is black, 1 the image."""
    return kind_of(img).brightness(img, brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """With more contrast: 0 is gray, 1 the image."""
    return kind_of(img).contrast(img, contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """With more colour: 0 is without, 1 the image."""
    return kind_of(img).saturation(img, saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """With colours turned by a part of the circle, -0.5 to 0.5; ValueError beyond."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor:{hue_factor} is not in [-0.5, 0.5].")
    return kind_of(img).hue(img, hue_factor)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """Without colours, in 1 or 3 channels; ValueError for others."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    return kind_of(img).gray(img, num_output_channels)


def rotate(
    img: Any,
    angle: float,
    interpolation: str = "nearest",
    expand: bool = False,
    center: Any = None,
    fill: Any = 0,
) -> Any:
    """Turned counter-clockwise by degrees, about the middle or `center` (x, y).

    expand: the result is as large as all of the image needs. fill: what is where nothing was.
    """
    return kind_of(img).rotate(img, angle, interpolation, expand, center, fill)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Any,
    interpolation: str = "nearest",
    fill: Any = 0,
    center: Any = None,
) -> Any:
    """Turned clockwise by degrees, moved by (x, y), scaled, and sheared by degrees in x (and y)."""
    if isinstance(shear, numbers.Number):
        shear = [shear, 0.0]
    shear = [*shear, 0.0] if len(shear) == 1 else list(shear)
    width, height = size_of(img)
    middle = (width * 0.5, height * 0.5)
    about = middle if center is None else center
    if isinstance(img, Variable):  # places in tensors count from the middle
        about = (about[0] - middle[0], about[1] - middle[1])
    matrix = geometry.inverse_affine(about, angle, translate, scale, shear)
    return kind_of(img).affine(img, matrix, interpolation, fill)


def perspective(
    img: Any,
    startpoints: Sequence[Any],
    endpoints: Sequence[Any],
    interpolation: str = "nearest",
    fill: Any = 0,
) -> Any:
    """With the corners `startpoints`, four (x, y), moved to `endpoints`."""
    return kind_of(img).perspective(img, startpoints, endpoints, interpolation, fill)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Any, inplace: bool = False) -> Any:
    """With the part of height h and width w at (i, j) overwritten by v."""
    return kind_of(img).erase(img, i, j, h, w, v, inplace)


def normalize(img: Any, mean: Any, std: Any, data_format: str = "CHW", to_rgb: bool = False) -> Any:
    """(img - mean) / std by channels; an array of float32 for what is no tensor.

    to_rgb: channels of arrays in the other order first.
    """
    shape = (-1, 1, 1) if data_format == "CHW" else (-1,)
    middle, spread = (np.asarray(one, "float32").reshape(shape) for one in (mean, std))
    if isinstance(img, Variable):
        return (img - tensor_of(middle)) / tensor_of(spread)
    values = np.array(img).astype("float32")
    if to_rgb:
        values = values[::-1] if data_format == "CHW" else values[..., ::-1]
    return (values - middle) / spread


def limits(width: int, height: int, scale: Sequence[float], ratio: Sequence[float]) -> Any:
    """(top, left, height, width) of the middle of an image within these aspect ratios."""
    own = width / height
    wide, high = width, height
    if own < min(ratio):
        high = round(width / min(ratio))
    elif own > max(ratio):
        wide = round(height * max(ratio))
    return math.floor((height - high) / 2), math.floor((width - wide) / 2), high, wide
