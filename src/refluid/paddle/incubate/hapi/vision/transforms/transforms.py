"""Colours of images changed at random, as Paddle 2's transforms change them."""

from __future__ import annotations

from typing import Any

from refluid.paddle.vision.transforms import coloring

__all__ = [
    "BrightnessTransform",
    "ColorJitter",
    "ContrastTransform",
    "HueTransform",
    "SaturationTransform",
]


class _OfImage:
    """A transform that is called with an image."""

    def __call__(self, img: Any) -> Any:
        """The image, changed."""
        return super().__call__(img)  # type: ignore[misc]


class BrightnessTransform(_OfImage, coloring.BrightnessTransform):
    """Brightness times a factor of [1 - value, 1 + value]."""

    def __init__(self, value: float) -> None:
        super().__init__(value)


class ContrastTransform(_OfImage, coloring.ContrastTransform):
    """Contrast times a factor of [1 - value, 1 + value]."""

    def __init__(self, value: float) -> None:
        super().__init__(value)


class SaturationTransform(_OfImage, coloring.SaturationTransform):
    """Saturation times a factor of [1 - value, 1 + value]."""

    def __init__(self, value: float) -> None:
        super().__init__(value)


class HueTransform(_OfImage, coloring.HueTransform):
    """Hue turned by a share of [-value, value]; value is at most 0.5."""

    def __init__(self, value: float) -> None:
        super().__init__(value)


class ColorJitter(_OfImage, coloring.ColorJitter):
    """All four, in a random order."""

    def __init__(
        self,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        hue: float = 0,
    ) -> None:
        super().__init__(brightness, contrast, saturation, hue)
