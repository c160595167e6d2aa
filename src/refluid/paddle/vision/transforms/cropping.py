"""Transforms that resize, crop, pad and flip."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.paddle.vision.transforms import functional
from refluid.paddle.vision.transforms.base import BaseTransform


def _pair(size: Any) -> Any:
    return (int(size), int(size)) if isinstance(size, int | float) else size


class Resize(BaseTransform):
    """Images of another size: (height, width), or that of the shorter edge."""

    def __init__(
        self, size: Any, interpolation: str = "bilinear", keys: Sequence[str] | None = None
    ) -> None:
        super().__init__(keys)
        assert isinstance(size, int) or len(size) == 2
        self.size, self.interpolation = size, interpolation

    def _apply_image(self, img: Any) -> Any:
        return functional.resize(img, self.size, self.interpolation)


class RandomResizedCrop(BaseTransform):
    """A part of an image in a given size.

    scale: its share of the area. ratio: its width by its height. Where ten draws don't fit, it is
    the middle.
    """

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4, 4.0 / 3),
        interpolation: str = "bilinear",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        assert scale[0] <= scale[1], "scale should be of kind (min, max)"
        assert ratio[0] <= ratio[1], "ratio should be of kind (min, max)"
        self.size = _pair(size)
        self.scale, self.ratio, self.interpolation = scale, ratio, interpolation

    def _drawn(self, img: Any, attempts: int = 10) -> Any:
        width, height = functional.size_of(img)
        bounds = [math.log(one) for one in self.ratio]
        for _ in range(attempts):
            area = np.random.uniform(self.scale[0], self.scale[1]) * width * height
            ratio = math.exp(np.random.uniform(bounds[0], bounds[1]))
            wide = round(math.sqrt(area * ratio))
            high = round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < high <= height:
                top = random.randint(0, height - high)
                return top, random.randint(0, width - wide), high, wide
        return functional.limits(width, height, self.scale, self.ratio)

    def _apply_image(self, img: Any) -> Any:
        part = functional.crop(img, *self._drawn(img))
        return functional.resize(part, self.size, self.interpolation)


class CenterCrop(BaseTransform):
    """The middle of an image, (height, width) or a square."""

    def __init__(self, size: Any, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        self.size = _pair(size)

    def _apply_image(self, img: Any) -> Any:
        return functional.center_crop(img, self.size)


class RandomCrop(BaseTransform):
    """A part of an image, (height, width) or a square, after it was padded.

    pad_if_needed: images that are smaller are padded to the size; else they are a ValueError.
    """

    def __init__(
        self,
        size: Any,
        padding: Any = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.size = _pair(size)
        self.padding, self.pad_if_needed = padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def _get_params(self, inputs: Any) -> Any:
        """The part that is cut out of all images of a sample."""
        img = self._padded(inputs[self.keys.index("image")])
        width, height = functional.size_of(img)
        high, wide = self.size
        if (width, height) == (wide, high):
            return 0, 0, height, width
        if width < wide or height < high:
            raise ValueError(
                f"Required crop size {(high, wide)} is larger than input image size "
                f"{(height, width)}"
            )
        top = random.randint(0, height - high)
        return top, random.randint(0, width - wide), high, wide

    def _padded(self, img: Any) -> Any:
        if self.padding is not None:
            img = functional.pad(img, self.padding, self.fill, self.padding_mode)
        width, height = functional.size_of(img)
        high, wide = self.size
        if self.pad_if_needed and width < wide:
            img = functional.pad(img, (wide - width, 0), self.fill, self.padding_mode)
        if self.pad_if_needed and height < high:
            img = functional.pad(img, (0, high - height), self.fill, self.padding_mode)
        return img

    def _apply_image(self, img: Any) -> Any:
        return functional.crop(self._padded(img), *self.params)


class Pad(BaseTransform):
    """Images with a border: as of `pad`."""

    def __init__(
        self,
        padding: Any,
        fill: Any = 0,
        padding_mode: str = "constant",
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.padding = int(padding) if isinstance(padding, float) else padding
        self.fill, self.padding_mode = fill, padding_mode

    def _apply_image(self, img: Any) -> Any:
        return functional.pad(img, self.padding, self.fill, self.padding_mode)


class _RandomFlip(BaseTransform):
    """Images flipped with a probability, all of a sample or none."""

    def __init__(self, prob: float = 0.5, keys: Sequence[str] | None = None) -> None:
        super().__init__(keys)
        assert 0 <= prob <= 1, "probability must be between 0 and 1"
        self.prob = prob

    def _get_params(self, inputs: Any) -> bool:
        return random.random() < self.prob


class RandomHorizontalFlip(_RandomFlip):
    """Left for right with a probability."""

    def _apply_image(self, img: Any) -> Any:
        return functional.hflip(img) if self.params else img


class RandomVerticalFlip(_RandomFlip):
    """Top for bottom with a probability."""

    def _apply_image(self, img: Any) -> Any:
        return functional.vflip(img) if self.params else img
