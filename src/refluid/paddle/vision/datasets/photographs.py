"""Small photographs of ten or a hundred kinds."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from refluid.paddle.dataset import cifar, common
from refluid.paddle.vision.datasets.base import ImageChange, ImageData, found


class Cifar10(ImageData):
    """(image 32 x 32, label) of 50,000 photographs of ten kinds, 10,000 in mode `test`.

    data_file: the archive; by default the one that `paddle.dataset.cifar` finds.
    """

    source = (cifar.CIFAR10_URL, cifar.CIFAR10_MD5)
    batches: ClassVar = {"train": "data_batch", "test": "test_batch"}

    def __init__(
        self,
        data_file: str | None = None,
        mode: str = "train",
        transform: ImageChange | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        url, checksum = self.source
        self.data_file = found(
            data_file, "data_file", download, lambda: common.download(url, "cifar", checksum)
        )
        self.data = [*cifar.photographs(self.data_file, self.batches[self.mode])]

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        pixels, label = self.data[idx]
        image = np.ascontiguousarray(pixels.reshape(3, 32, 32).transpose(1, 2, 0))
        return self._given(image), np.array(label).astype("int64")

    def __len__(self) -> int:
        return len(self.data)


class Cifar100(Cifar10):
    """(image 32 x 32, label) of 50,000 photographs of a hundred kinds, 10,000 in mode `test`."""

    source = (cifar.CIFAR100_URL, cifar.CIFAR100_MD5)
    batches: ClassVar = {"train": "train", "test": "test"}
