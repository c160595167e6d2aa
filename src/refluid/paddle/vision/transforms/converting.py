"""Transforms of images to what networks take."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.ir.variable import Variable
from refluid.paddle.tensor.manipulation import transpose
from refluid.paddle.vision.transforms import functional
from refluid.paddle.vision.transforms.base import BaseTransform


class ToTensor(BaseTransform):
    """A tensor of an image, (C, H, W) or (H, W, C); bytes become fractions of 255."""

    def __init__(self, data_format: str = "CHW", keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.data_format = data_format

    def _apply_image(self, img: Any) -> Any:
        return functional.to_tensor(img, self.data_format)


class Transpose(BaseTransform):
    """Dimensions in another order; Pillow's images become arrays."""

    def __init__(self, order: Sequence[int] = (2, 0, 1), keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.order = order

    def _apply_image(self, img: Any) -> Any:
        if isinstance(img, Variable):
            return transpose(img, list(self.order))
        values = np.asarray(img) if functional.is_pillow(img) else img
        values = values[..., None] if values.ndim == 2 else values
        return values.transpose(self.order)


class Normalize(BaseTransform):
    """(image - mean) / std, by channels. A number is meant for each of three channels."""

    def __init__(
        self,
        mean: Any = 0.0,
        std: Any = 1.0,
        data_format: str = "CHW",
        to_rgb: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.mean = [mean] * 3 if isinstance(mean, int | float) else mean
        self.std = [std] * 3 if isinstance(std, int | float) else std
        self.data_format, self.to_rgb = data_format, to_rgb

    def _apply_image(self, img: Any) -> Any:
        return functional.normalize(img, self.mean, self.std, self.data_format, self.to_rgb)


class RandomErasing(BaseTransform):
    """A rectangle of an image overwritten, with a probability.

    scale: its share of the area. ratio: its height by its width. value: a number, one for each
    channel, or `random`.
    """

    def __init__(
        self,
        prob: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: Any = 0,
        inplace: bool = False,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        assert 0 <= scale[0] <= scale[1] <= 1, "scale should be of kind (min, max), between 0 and 1"
        assert 0 < ratio[0] <= ratio[1], "ratio should be of kind (min, max), positive"
        assert 0 <= prob <= 1, "The probability should be between 0 and 1"
        if isinstance(value, str) and value != "random":
            raise ValueError('value must be "random" when type is str')
        self.prob, self.scale, self.ratio = prob, scale, ratio
        self.value, self.inplace = value, inplace

    def _rectangle(self, img: Any) -> tuple[int, int, int, int] | None:
        """(top, left, height, width); None where ten draws give none that fits."""
        width, height = functional.size_of(img)
        bounds = [math.log(one) for one in self.ratio]
        for _ in range(10):
            area = np.random.uniform(self.scale[0], self.scale[1]) * width * height
            ratio = math.exp(np.random.uniform(bounds[0], bounds[1]))
            high = round(math.sqrt(area * ratio))
            wide = round(math.sqrt(area / ratio))
            if high < height and wide < width:
                top = np.random.randint(0, height - high + 1)
                return int(top), int(np.random.randint(0, width - wide + 1)), high, wide
        return None

    def _apply_image(self, img: Any) -> Any:
        if random.random() >= self.prob:
            return img
        found = self._rectangle(img)
        if found is None:
            return img
        return functional.erase(img, *found, self._filling(img, *found[2:]), self.inplace)

    def _filling(self, img: Any, height: int, width: int) -> Any:
        is_tensor = isinstance(img, Variable)
        bands = (
            img.shape[-3] if is_tensor else np.asarray(img).reshape(*np.shape(img)[:2], -1).shape[2]
        )
        if self.value == "random":
            shape = (bands, height, width) if is_tensor else (height, width, bands)
            drawn = np.random.normal(size=shape)
            return drawn.astype("float32" if is_tensor else np.asarray(img).dtype)
        value = np.asarray(self.value)
        return value.reshape(-1, 1, 1) if is_tensor and value.ndim else value
