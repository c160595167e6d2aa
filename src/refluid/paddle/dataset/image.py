"""`paddle.dataset.image`: pictures as arrays, cut, mirrored and scaled as OpenCV does.

A picture is uint8 [height, width, 3], its colours blue, green, red, or [height, width] without
colours. OpenCV (`cv2`) is used where it is installed; without it Pillow reads files, and torch
scales with OpenCV's cubic curve.
"""

from __future__ import annotations

import io
import os
import pickle
import tarfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = [
    "batch_images_from_tar",
    "center_crop",
    "left_right_flip",
    "load_and_transform",
    "load_image",
    "load_image_bytes",
    "random_crop",
    "resize_short",
    "simple_transform",
    "to_chw",
]

Array = npt.NDArray[Any]


@cache
def _opencv() -> ModuleType | None:
    """OpenCV, looked for once: what is not there takes long to be not found."""
    try:
        import cv2
    except ImportError:
        return None
    return cv2  # type: ignore[no-any-return]


def load_image_bytes(bytes: bytes, is_color: bool = True) -> Array:
    """The picture that a file's content is of: BGR, or grey without `is_color`."""
    if (cv2 := _opencv()) is not None:
        content = np.frombuffer(bytes, np.uint8)
        picture: Array = cv2.imdecode(content, int(is_color))
        return picture
    from PIL import Image

    with Image.open(io.BytesIO(bytes)) as file:
        if not is_color:
            file.draft("L", file.size)  # of a JPEG its own brightness, as OpenCV takes it
            return np.array(file.convert("L"))
        return np.ascontiguousarray(np.array(file.convert("RGB"))[:, :, ::-1])


def load_image(file: str | os.PathLike[str], is_color: bool = True) -> Array:
    """The picture of a file: BGR, or grey without `is_color`."""
    return load_image_bytes(Path(file).read_bytes(), is_color)


def _resize(im: Array, height: int, width: int) -> Array:
    if (cv2 := _opencv()) is not None:
        scaled: Array = cv2.resize(im, (width, height), interpolation=cv2.INTER_CUBIC)
        return scaled
    import torch

    planes = torch.from_numpy(np.ascontiguousarray(im, np.float32))
    planes = planes[None, None] if im.ndim == 2 else planes.permute(2, 0, 1)[None]
    cubic = torch.nn.functional.interpolate(planes, (height, width), mode="bicubic")[0]
    values = (cubic[0] if im.ndim == 2 else cubic.permute(1, 2, 0)).numpy()
    if im.dtype == np.uint8:
        values = np.rint(values).clip(0, 255)
    return np.ascontiguousarray(values.astype(im.dtype))


def resize_short(im: Array, size: int) -> Array:
    """Scales a picture so that its shorter side is `size`."""
    height, width = im.shape[:2]
    if height > width:
        return _resize(im, size * height // width, size)
    return _resize(im, size, size * width // height)


def to_chw(im: Array, order: Sequence[int] = (2, 0, 1)) -> Array:
    """[height, width, channels] as [channels, height, width]."""
    if len(im.shape) != len(order):
        raise ValueError(f"a picture of shape {im.shape} has no dimensions {tuple(order)}")
    return im.transpose(order)


def _crop(im: Array, top: int, left: int, size: int) -> Array:
    return im[top : top + size, left : left + size]


def center_crop(im: Array, size: int, is_color: bool = True) -> Array:
    """The square of `size` in the middle."""
    height, width = im.shape[:2]
    return _crop(im, (height - size) // 2, (width - size) // 2, size)


def random_crop(im: Array, size: int, is_color: bool = True) -> Array:
    """A square of `size` anywhere, by `numpy.random`."""
    height, width = im.shape[:2]
    top = np.random.randint(0, height - size + 1)
    return _crop(im, top, np.random.randint(0, width - size + 1), size)


def left_right_flip(im: Array, is_color: bool = True) -> Array:
    """The picture in a mirror."""
    return im[:, ::-1]


def simple_transform(
    im: Array,
    resize_size: int,
    crop_size: int,
    is_train: bool,
    is_color: bool = True,
    mean: npt.ArrayLike | None = None,
) -> Array:
    """Scaled, cropped, float32 and channels first; for training anywhere and at times mirrored.

    mean: a number for each channel, or a picture, that is subtracted.
    """
    im = resize_short(im, resize_size)
    if is_train:
        im = random_crop(im, crop_size, is_color)
        if np.random.randint(2) == 0:
            im = left_right_flip(im, is_color)
    else:
        im = center_crop(im, crop_size, is_color)
    if im.ndim == 3:
        im = to_chw(im)
    im = im.astype(np.float32)
    if mean is not None:
        values = np.array(mean, np.float32)
        im -= values[:, None, None] if values.ndim == 1 and is_color else values
    return im


def load_and_transform(
    filename: str,
    resize_size: int,
    crop_size: int,
    is_train: bool,
    is_color: bool = True,
    mean: npt.ArrayLike | None = None,
) -> Array:
    """`load_image`, then `simple_transform`."""
    im = load_image(filename, is_color)
    return simple_transform(im, resize_size, crop_size, is_train, is_color, mean)


def batch_images_from_tar(
    data_file: str, dataset_name: str, img2label: Mapping[str, Any], num_per_batch: int = 1024
) -> str:
    """Writes the pictures of a tar archive that have labels to pickles of `num_per_batch` each.

    They are in the folder `DATA_FILE_batch/DATASET_NAME`; gives the path of the list of them, which
    is all that happens where it is there already.
    """
    folder = Path(f"{data_file}_batch") / dataset_name
    listing = folder / f"{dataset_name}.txt"
    if listing.is_file():
        return str(listing)
    folder.mkdir(parents=True, exist_ok=True)
    names: list[str] = []
    data: list[bytes] = []
    labels: list[Any] = []

    def flush() -> None:
        if data:
            path = folder / f"batch_{len(names)}"
            content = {"label": list(labels), "data": list(data)}
            path.write_bytes(pickle.dumps(content, protocol=2))
            names.append(str(path.resolve()))
            data.clear()
            labels.clear()

    with tarfile.open(data_file) as archive:
        for member in archive:
            if member.name in img2label and (file := archive.extractfile(member)):
                data.append(file.read())
                labels.append(img2label[member.name])
                if len(data) == num_per_batch:
                    flush()
    flush()
    listing.write_text("".join(f"{name}\n" for name in names), encoding="utf-8")
    return str(listing)
