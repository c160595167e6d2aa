"""Photographs of 102 kinds of flowers."""

from __future__ import annotations

import tarfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from refluid.paddle.dataset import common
from refluid.paddle.dataset import flowers as data
from refluid.paddle.vision.datasets.base import ImageChange, ImageData, found, opened

_LISTS = {"train": data.TRAIN_FLAG, "test": data.TEST_FLAG, "valid": data.VALID_FLAG}


class Flowers(ImageData):
    """(image, label [1] from 1 to 102) of 6,149 photographs; 1,020 in modes `valid` and `test`.

    The archive is unpacked beside itself. data_file, label_file, setid_file: by default those that
    `paddle.dataset.flowers` finds.
    """

    modes = ("train", "valid", "test")

    def __init__(
        self,
        data_file: str | None = None,
        label_file: str | None = None,
        setid_file: str | None = None,
        mode: str = "train",
        transform: ImageChange | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        sources = {
            "data_file": (data_file, data.DATA_URL, data.DATA_MD5),
            "label_file": (label_file, data.LABEL_URL, data.LABEL_MD5),
            "setid_file": (setid_file, data.SETID_URL, data.SETID_MD5),
        }
        files = [
            found(given, label, download, partial(common.download, url, "flowers", md5))
            for label, (given, url, md5) in sources.items()
        ]
        self.data_path = _unpacked(Path(files[0]))
        self.samples = [*data.labels_of(files[1], files[2], _LISTS[self.mode]).items()]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        name, label = self.samples[idx]
        image = opened((self.data_path / name).read_bytes())
        return self._given(image), np.array([label]).astype("int64")

    def __len__(self) -> int:
        return len(self.samples)


def _unpacked(archive: Path) -> Path:
    """The folder with what is in an archive, made where it isn't there yet."""
    folder = archive.with_name(archive.name.split(".")[0])
    if not folder.is_dir():
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return folder
