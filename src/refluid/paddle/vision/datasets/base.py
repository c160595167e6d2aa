"""What data sets of images share: how images are given, and where their files are."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np

from refluid.feed.datasets import Dataset
from refluid.paddle.framework.dtypes import get_default_dtype
from refluid.paddle.vision.images import get_image_backend

ImageChange = Callable[[Any], Any]


class ImageData(Dataset):
    """Images, each with what belongs to it.

    transform: what is done to an image. backend: `pil` gives Pillow's images, `cv2` arrays
    (H, W, C) of the default element type; by default what `set_image_backend` said. ValueError
    for others, AssertionError for a mode that isn't one of `modes`.
    """

    modes: tuple[str, ...] = ("train", "test")

    def __init__(self, mode: str, transform: ImageChange | None, backend: str | None) -> None:
        assert mode.lower() in self.modes, (
            f"mode should be {' or '.join(map(repr, self.modes))}, but got {mode}"
        )
        chosen = get_image_backend() if backend is None else backend
        if chosen not in ("pil", "cv2"):
            raise ValueError(f"Expected backend are one of ['pil', 'cv2'], but got {chosen}")
        self.mode, self.backend, self.transform = mode.lower(), chosen, transform
        self.dtype = get_default_dtype()

    def _given(self, image: Any) -> Any:
        """An image, as Pillow's or an array of bytes, as the user gets it."""
        if self.backend == "pil":
            image = _as_pillow(image)
        elif not isinstance(image, np.ndarray):
            image = np.array(image)
        if self.transform is not None:
            image = self.transform(image)
        return image if self.backend == "pil" else image.astype(self.dtype)


def _as_pillow(image: Any) -> Any:
    from PIL import Image

    return Image.fromarray(image) if isinstance(image, np.ndarray) else image


def opened(content: bytes) -> Any:
    """A picture file's content as Pillow's image."""
    from PIL import Image

    return Image.open(io.BytesIO(content))


def found(given: str | None, label: str, download: bool, look: Callable[[], str]) -> str:
    """A file: the one that is given, else what `look` finds in the cache.

    AssertionError where none is given and `download` is False. It is downloaded only where the
    environment allows it (`paddle.dataset.common.download`).
    """
    if given is not None:
        return given
    assert download, f"{label} is not set and downloading automatically is disabled"
    return look()
