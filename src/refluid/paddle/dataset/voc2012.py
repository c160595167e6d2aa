"""`paddle.dataset.voc2012`: photographs and what each pixel shows.

A sample is (uint8 [height, width, 3], uint8 [height, width]). Read by Pillow.
"""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.paddle.dataset import common

__all__ = ["test", "train", "val"]

VOC_URL = "http://host.robots.ox.ac.uk/pascal/VOC/voc2012/VOCtrainval_11-May-2012.tar"
VOC_MD5 = "6cd6e144f989b92b3379bac3b3de84fd"
SET_FILE = "VOCdevkit/VOC2012/ImageSets/Segmentation/{}.txt"
DATA_FILE = "VOCdevkit/VOC2012/JPEGImages/{}.jpg"
LABEL_FILE = "VOCdevkit/VOC2012/SegmentationClass/{}.png"
CACHE_DIR = "voc2012"

Reader = Callable[[], Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]]


def reader_creator(filename: str, sub_name: str) -> Reader:
    """A reader of the photographs that the list `sub_name` in the archive names."""

    def reader() -> Iterator[tuple[npt.NDArray[Any], npt.NDArray[Any]]]:
        from PIL import Image

        with tarfile.open(filename) as archive:

            def content(name: str) -> bytes:
                file = archive.extractfile(name)
                if file is None:
                    raise KeyError(f"{name} in {filename} is no file")
                return file.read()

            for line in content(SET_FILE.format(sub_name)).decode("utf-8").split():
                picture = Image.open(io.BytesIO(content(DATA_FILE.format(line))))
                classes = Image.open(io.BytesIO(content(LABEL_FILE.format(line))))
                yield np.array(picture), np.array(classes)

    return reader


def _archive() -> str:
    return common.download(VOC_URL, CACHE_DIR, VOC_MD5)


def train() -> Reader:
    """A reader of all 2,913 photographs that have classes."""
    return reader_creator(_archive(), "trainval")


def test() -> Reader:
    """A reader of the 1,464 photographs of the list `train`, as in Fluid."""
    return reader_creator(_archive(), "train")


def val() -> Reader:
    """A reader of the 1,449 photographs of the list `val`."""
    return reader_creator(_archive(), "val")
