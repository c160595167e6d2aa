"""`paddle.dataset.flowers`: Oxford's 102 flowers; a sample is (float32[3 * 224 * 224], label).

The labels, 0 to 101, are in MATLAB files, which scipy reads; Pillow or OpenCV reads the pictures.
"""

from __future__ import annotations

import functools
import os
import tarfile
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from refluid.feed.decorators import map_readers, xmap_readers
from refluid.paddle.dataset import common
from refluid.paddle.dataset.image import load_image_bytes, simple_transform

__all__ = ["test", "train", "valid"]

DATA_URL = "http://paddlemodels.bj.bcebos.com/flowers/102flowers.tgz"
LABEL_URL = "http://paddlemodels.bj.bcebos.com/flowers/imagelabels.mat"
SETID_URL = "http://paddlemodels.bj.bcebos.com/flowers/setid.mat"
DATA_MD5 = "52808999861908f626f3c1f4e79d11fa"
LABEL_MD5 = "e0620be6f572b9609742df49c70aed4d"
SETID_MD5 = "a5357ecc9cb78c4bef273ce3793fc85c"
# Of the three lists Fluid trains with the longest one, which its makers meant for tests.
TRAIN_FLAG = "tstid"
TEST_FLAG = "trnid"
VALID_FLAG = "valid"

_MEAN = (103.94, 116.78, 123.68)
_RESIZED, _CROPPED = 256, 224
_MOST_WORKERS = 8
Mapper = Callable[[tuple[bytes, int]], Any]
Reader = Callable[[], Iterable[Any]]


def default_mapper(
    is_train: bool, sample: tuple[bytes, int]
) -> tuple[npt.NDArray[np.float32], int]:
    """A JPEG's content and its label to what the network reads."""
    content, label = sample
    picture = load_image_bytes(content)
    picture = simple_transform(picture, _RESIZED, _CROPPED, is_train, mean=_MEAN)
    return picture.flatten().astype(np.float32), label


train_mapper = functools.partial(default_mapper, True)
test_mapper = functools.partial(default_mapper, False)


def labels_of(label_file: str, setid_file: str, dataset_name: str) -> dict[str, int]:
    """Names of the pictures of a list, and their labels from 1."""
    from scipy.io import loadmat

    labels = loadmat(label_file)["labels"][0]
    chosen = loadmat(setid_file)[dataset_name][0]
    return {f"jpg/image_{number:05d}.jpg": int(labels[number - 1]) for number in chosen}


def reader_creator(
    data_file: str,
    label_file: str,
    setid_file: str,
    dataset_name: str,
    mapper: Mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """A reader of a list's pictures in the order of the archive, each handed to `mapper`.

    use_xmap: map in threads, in any order. cycle: begin anew for ever.
    """

    def samples() -> Iterator[tuple[bytes, int]]:
        labels = labels_of(label_file, setid_file, dataset_name)
        while True:
            with tarfile.open(data_file) as archive:
                for member in archive:
                    if member.name in labels and (file := archive.extractfile(member)):
                        yield file.read(), labels[member.name] - 1
            if not cycle:
                return

    if use_xmap:
        workers = min(_MOST_WORKERS, os.cpu_count() or 1)
        return xmap_readers(mapper, samples, workers, buffered_size)
    return map_readers(mapper, samples)


def _reader(
    list_name: str, mapper: Mapper, buffered_size: int, use_xmap: bool, cycle: bool
) -> Reader:
    return reader_creator(
        common.download(DATA_URL, "flowers", DATA_MD5),
        common.download(LABEL_URL, "flowers", LABEL_MD5),
        common.download(SETID_URL, "flowers", SETID_MD5),
        list_name,
        mapper,
        buffered_size,
        use_xmap,
        cycle,
    )


def train(
    mapper: Mapper = train_mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """A reader of the 6,149 pictures that Fluid trains with, cropped anywhere."""
    return _reader(TRAIN_FLAG, mapper, buffered_size, use_xmap, cycle)


def test(
    mapper: Mapper = test_mapper,
    buffered_size: int = 1024,
    use_xmap: bool = True,
    cycle: bool = False,
) -> Reader:
    """A reader of 1,020 pictures, cropped in the middle."""
    return _reader(TEST_FLAG, mapper, buffered_size, use_xmap, cycle)


def valid(mapper: Mapper = test_mapper, buffered_size: int = 1024, use_xmap: bool = True) -> Reader:
    """A reader of 1,020 other pictures, cropped in the middle."""
    return _reader(VALID_FLAG, mapper, buffered_size, use_xmap, cycle=False)


def fetch() -> None:
    """Looks for the three files, downloading them where that is asked for."""
    train()
