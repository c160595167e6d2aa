"""Transforms of colours."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

from refluid.paddle.vision.transforms import functional
from refluid.paddle.vision.transforms.base import BaseTransform, Compose, as_range


class _Adjusting(BaseTransform):
    """An adjustment by a factor that is drawn for each image."""

    _adjust: ClassVar[Any]
    _name: ClassVar[str]
    _range: ClassVar[tuple[float, float, float]] = (1.0, 0.0, float("inf"))

    def __init__(self, value: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.value = as_range(self._name, value, *self._range)

    def _apply_image(self, img: Any) -> Any:
        if self.value is None:
            return img
        return type(self)._adjust(img, random.uniform(self.value[0], self.value[1]))


class BrightnessTransform(_Adjusting):
    """Brightness times a factor from [max(0, 1 - value), 1 + value]."""

    _name, _adjust = "brightness", staticmethod(functional.adjust_brightness)


class ContrastTransform(_Adjusting):
    """Contrast times a factor from [max(0, 1 - value), 1 + value]."""

    _name, _adjust = "contrast", staticmethod(functional.adjust_contrast)


class SaturationTransform(_Adjusting):
    """Saturation times a factor from [max(0, 1 - value), 1 + value]."""

    _name, _adjust = "saturation", staticmethod(functional.adjust_saturation)


class HueTransform(_Adjusting):
    """Hue moved by a part of the circle from [-value, value], at most 0.5."""

    _name, _adjust = "hue", staticmethod(functional.adjust_hue)
    _range = (0.0, -0.5, 0.5)


class ColorJitter(BaseTransform):
    """Brightness, contrast, saturation and hue changed, in an order that is drawn too."""

    def __init__(
        self,
        brightness: Any = 0,
        contrast: Any = 0,
        saturation: Any = 0,
        hue: Any = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.brightness, self.contrast = brightness, contrast
        self.saturation, self.hue = saturation, hue

    def _get_params(self, inputs: Any) -> Any:
        asked = {
            BrightnessTransform: self.brightness,
            ContrastTransform: self.contrast,
            SaturationTransform: self.saturation,
            HueTransform: self.hue,
        }
        found = [kind(value, self.keys) for kind, value in asked.items() if value is not None]
        random.shuffle(found)
        return Compose(found)

    def _apply_image(self, img: Any) -> Any:
        return self.params(img)


class Grayscale(BaseTransform):
    """Images without colours, in 1 or 3 channels."""

    def __init__(self, num_output_channels: int = 1, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.num_output_channels = num_output_channels

    def _apply_image(self, img: Any) -> Any:
        return functional.to_grayscale(img, self.num_output_channels)
