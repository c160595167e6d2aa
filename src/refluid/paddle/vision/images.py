"""How images are read from files."""

from __future__ import annotations

from typing import Any

_BACKENDS = ("pil", "cv2", "tensor")
_backend = "pil"


def set_image_backend(backend: str) -> None:
    """Has images be read by `pil` or `cv2`; ValueError for others."""
    global _backend
    if backend not in _BACKENDS:
        raise ValueError(f"Expected backend are one of ['pil', 'cv2', 'tensor'], but got {backend}")
    _backend = backend


def get_image_backend() -> str:
    """What images are read by."""
    return _backend


def image_load(path: str, backend: str | None = None) -> Any:
    """An image: Pillow's with `pil`, with `cv2` an array (H, W, 3), blue before green and red."""
    chosen = get_image_backend() if backend is None else backend
    if chosen not in _BACKENDS:
        raise ValueError(f"Expected backend are one of ['pil', 'cv2', 'tensor'], but got {chosen}")
    if chosen == "pil":
        from PIL import Image

        return Image.open(path)
    import cv2

    return cv2.imread(path)
