"""Handwritten digits, and pieces of clothing in files of the same kind."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from refluid.paddle.dataset import common, mnist
from refluid.paddle.vision.datasets.base import ImageChange, ImageData, found

_FASHION = "https://dataset.bj.bcebos.com/fashion_mnist/"


class MNIST(ImageData):
    """(image 28 x 28, label [1]) of 60,000 digits, 10,000 in mode `test`.

    image_path, label_path: the files; by default those that `paddle.dataset.mnist` finds.
    """

    urls: ClassVar = {
        "train": (mnist.TRAIN_IMAGE_URL, mnist.TRAIN_LABEL_URL),
        "test": (mnist.TEST_IMAGE_URL, mnist.TEST_LABEL_URL),
    }
    checksums: ClassVar = {
        "train": (mnist.TRAIN_IMAGE_MD5, mnist.TRAIN_LABEL_MD5),
        "test": (mnist.TEST_IMAGE_MD5, mnist.TEST_LABEL_MD5),
    }

    def __init__(
        self,
        image_path: str | None = None,
        label_path: str | None = None,
        mode: str = "train",
        transform: ImageChange | None = None,
        download: bool = True,
        backend: str | None = None,
    ) -> None:
        super().__init__(mode, transform, backend)
        self.image_path = found(image_path, "image_path", download, lambda: self._file(0))
        self.label_path = found(label_path, "label_path", download, lambda: self._file(1))
        self.images = mnist.idx(self.image_path)
        self.labels = mnist.idx(self.label_path).astype("int64").reshape(-1, 1)

    def _file(self, place: int) -> str:
        return mnist.data_file(self.urls[self.mode][place], self.checksums[self.mode][place])

    def __getitem__(self, idx: int) -> tuple[Any, Any]:
        image = np.array(self.images[idx])
        if self.backend == "cv2":
            image = image.astype(self.dtype)  # before it is transformed, as Paddle has it
        return self._given(image), self.labels[idx]

    def __len__(self) -> int:
        return len(self.labels)


class FashionMNIST(MNIST):
    """(image 28 x 28, label [1]) of 60,000 pieces of clothing, 10,000 in mode `test`."""

    urls: ClassVar = {
        "train": (
            _FASHION + "train-images-idx3-ubyte.gz",
            _FASHION + "train-labels-idx1-ubyte.gz",
        ),
        "test": (_FASHION + "t10k-images-idx3-ubyte.gz", _FASHION + "t10k-labels-idx1-ubyte.gz"),
    }
    checksums: ClassVar = {
        "train": ("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe"),
        "test": ("bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310"),
    }

    def _file(self, place: int) -> str:
        url, checksum = self.urls[self.mode][place], self.checksums[self.mode][place]
        return common.download(url, "fashion-mnist", checksum)
