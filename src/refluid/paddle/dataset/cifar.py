"""`paddle.dataset.cifar`: small photographs; a sample is (float32[3072] in [0, 1], label)."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt

from refluid.core.pickles import load_state_bytes
from refluid.paddle.dataset import common

__all__ = ["test10", "test100", "train10", "train100"]

URL_PREFIX = "https://dataset.bj.bcebos.com/cifar/"
CIFAR10_URL = URL_PREFIX + "cifar-10-python.tar.gz"
CIFAR10_MD5 = "c58f30108f718f92721af3b95e74349a"
CIFAR100_URL = URL_PREFIX + "cifar-100-python.tar.gz"
CIFAR100_MD5 = "eb9058c3a382ffc7106e4002c42a8d85"

Reader = Callable[[], Iterator[tuple[npt.NDArray[np.float32], int]]]


def reader_creator(filename: str, sub_name: str, cycle: bool = False) -> Reader:
    """A reader of the pickled batches in a tar archive whose names have `sub_name` in them."""

    def reader() -> Iterator[tuple[npt.NDArray[np.float32], int]]:
        while True:
            for pixels, label in photographs(filename, sub_name):
                yield (pixels / 255.0).astype(np.float32), label
            if not cycle:
                return

    return reader


def photographs(filename: str, sub_name: str) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
    """Pixels, uint8[3072], and labels of the batches whose names have `sub_name` in them."""
    with tarfile.open(filename) as archive:
        for member in archive:
            if sub_name in member.name and (file := archive.extractfile(member)):
                yield from _samples(file.read(), member.name)


def _samples(batch: bytes, name: str) -> Iterator[tuple[npt.NDArray[np.uint8], int]]:
    """What a pickled batch has, read without executing anything in it."""
    state = load_state_bytes(batch, name)
    labels = state.others.get("labels", state.others.get("fine_labels"))
    for pixels, label in zip(state.arrays["data"], labels or (), strict=True):
        yield pixels, int(label)


def train100() -> Reader:
    """A reader of the CIFAR-100 training photographs: 100 labels."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "train")


def test100() -> Reader:
    """A reader of the CIFAR-100 test photographs."""
    return reader_creator(common.download(CIFAR100_URL, "cifar", CIFAR100_MD5), "test")


def train10(cycle: bool = False) -> Reader:
    """A reader of the CIFAR-10 training photographs; with `cycle` it begins anew for ever."""
    return reader_creator(common.download(CIFAR10_URL, "cifar", CIFAR10_MD5), "data_batch", cycle)


def test10(cycle: bool = False) -> Reader:
    """A reader of the CIFAR-10 test photographs; with `cycle` it begins anew for ever."""
    return reader_creator(common.download(CIFAR10_URL, "cifar", CIFAR10_MD5), "test_batch", cycle)


def fetch() -> None:
    """Looks for both archives, downloading them where that is asked for."""
    common.download(CIFAR10_URL, "cifar", CIFAR10_MD5)
    common.download(CIFAR100_URL, "cifar", CIFAR100_MD5)
