"""Photographs, and what each pixel shows."""

from __future__ import annotations

import tarfile
from typing import Any

import numpy as np

from refluid.paddle.dataset import common
from refluid.paddle.dataset import voc2012 as data
from refluid.paddle.vision.datasets.base import ImageChange, ImageData, found, opened

_LISTS = {"train": "trainval", "test": "train", "valid": "val"}


class VOC2012(ImageData):
    """(image, classes of its pixels) of 2,913 photographs; 1,464 in `test`, 1,449 in `valid`.

    data_file: the archive; by default the one that `paddle.dataset.voc2012` finds.
    """

    modes = ("train", "valid", "test")

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: ImageChange | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        self.data_file = found(
            data_file,
            "data_file",
            download,
            lambda: common.download(data.VOC_URL, data.CACHE_DIR, data.VOC_MD5),
        )
        with tarfile.open(self.data_file, "r:") as archive:
            self._places = {one.name: (one.offset_data, one.size) for one in archive}
        listed = self._content(data.SET_FILE.format(_LISTS[self.mode]))
        self.names = listed.decode("utf-8").split()

    def _content(self, name: str) -> bytes:
        """A file of the archive, which isn't compressed. KeyError where it has none."""
        start, size = self._places[name]
        with open(self.data_file, "rb") as file:
            file.seek(start)
            return file.read(size)

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        name = self.names[idx]
        image = opened(self._content(data.DATA_FILE.format(name)))
        classes = opened(self._content(data.LABEL_FILE.format(name)))
        if self.backend == "cv2":
            return self._given(image), np.array(classes).astype(self.dtype)
        return self._given(image), classes

    def __len__(self) -> int:
        return len(self.names)
