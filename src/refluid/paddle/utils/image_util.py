"""`paddle.utils.image_util`: pictures as arrays [channels, height, width], read by Pillow."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from PIL.Image import Image

Array = npt.NDArray[Any]


def resize_image(img: Image, target_size: int) -> Image:
    """Scales a picture so that its shorter side is `target_size`."""
    from PIL.Image import Resampling

    ratio = target_size / min(img.size)
    width, height = (round(side * ratio) for side in img.size)
    return img.resize((width, height), Resampling.LANCZOS)


def flip(im: Array) -> Array:
    """The picture in a mirror."""
    return im[..., ::-1]


def crop_img(im: Array, inner_size: int, color: bool = True, test: bool = True) -> Array:
    """A square of `inner_size`: the middle, or without `test` any, at times mirrored.

    A picture that is smaller stands in the middle of zeros.
    """
    height, width = max(inner_size, im.shape[-2]), max(inner_size, im.shape[-1])
    padded = np.zeros((*im.shape[:-2], height, width), np.float32)
    top, left = (height - im.shape[-2]) // 2, (width - im.shape[-1]) // 2
    padded[..., top : top + im.shape[-2], left : left + im.shape[-1]] = im
    if test:
        top, left = (height - inner_size) // 2, (width - inner_size) // 2
    else:
        top = np.random.randint(0, height - inner_size + 1)
        left = np.random.randint(0, width - inner_size + 1)
    square = padded[..., top : top + inner_size, left : left + inner_size]
    return flip(square) if not test and np.random.randint(2) == 0 else square


def decode_jpeg(jpeg_string: bytes) -> Array:
    """The picture that a file's content is of, channels first where it has colours."""
    from PIL import Image

    picture = np.array(Image.open(io.BytesIO(jpeg_string)))
    return np.transpose(picture, (2, 0, 1)) if picture.ndim == 3 else picture


def preprocess_img(
    im: Array, img_mean: Array, crop_size: int, is_train: bool, color: bool = True
) -> Array:
    """A square of the picture (see `crop_img`) without the mean, as one row."""
    square = crop_img(im.astype(np.float32), crop_size, color, test=not is_train)
    return (square - img_mean).flatten()


def load_meta(meta_path: str, mean_img_size: int, crop_size: int, color: bool = True) -> Array:
    """The middle of the mean picture in a file: `data_mean` of an `.npz`."""
    with np.load(meta_path, allow_pickle=False) as file:
        mean = file["data_mean"]
    border = (mean_img_size - crop_size) // 2
    sides = (3, mean_img_size, mean_img_size) if color else (mean_img_size, mean_img_size)
    if mean.size != np.prod(sides):
        raise ValueError(f"{meta_path} has a mean of {mean.size} numbers, not of {sides}")
    inside = slice(border, border + crop_size)
    return np.asarray(mean.reshape(sides)[..., inside, inside], np.float32)


def load_image(img_path: str, is_color: bool = True) -> Image:
    """The picture of a file, for Pillow; without `is_color` grey."""
    from PIL import Image

    picture = Image.open(img_path)
    picture.load()
    return picture if is_color else picture.convert("L")


def oversample(img: Array, crop_dims: Array) -> Array:
    """Ten parts of each picture [n, height, width, channels]: corners, middle, and mirrored."""
    sides = np.asarray(img[0].shape[:2])
    size = np.asarray(crop_dims)
    corners = [(top, left) for top in (0, sides[0] - size[0]) for left in (0, sides[1] - size[1])]
    middle = tuple((sides - size) // 2)
    parts = []
    for picture in img:
        some = [
            picture[top : top + size[0], left : left + size[1]] for top, left in (*corners, middle)
        ]
        parts += [*some, *(part[:, ::-1] for part in some)]
    return np.array(parts, np.float32)


class ImageTransformer:
    """Turns a picture's dimensions and channels round and takes a mean away."""

    def __init__(
        self,
        transpose: tuple[int, ...] | None = None,
        channel_swap: tuple[int, ...] | None = None,
        mean: npt.ArrayLike | None = None,
        is_color: bool = True,
    ) -> None:
        self.is_color = is_color
        self.set_transpose(transpose)
        self.set_channel_swap(channel_swap)
        self.set_mean(mean)

    def set_transpose(self, order: tuple[int, ...] | None) -> None:
        """The order in which dimensions come, or None."""
        self.transpose = order

    def set_channel_swap(self, order: tuple[int, ...] | None) -> None:
        """The order in which channels come, or None."""
        self.channel_swap = order

    def set_mean(self, mean: npt.ArrayLike | None) -> None:
        """What is subtracted: a number for each channel, a picture, or None."""
        values = None if mean is None else np.asarray(mean)
        if values is not None and values.ndim == 1:
            values = values[:, None, None]
        self.mean = values

    def transformer(self, data: Array) -> Array:
        """The picture, changed as was said."""
        if self.transpose is not None:
            data = data.transpose(self.transpose)
        if self.channel_swap is not None:
            data = data[list(self.channel_swap)]
        return data if self.mean is None else data - self.mean
