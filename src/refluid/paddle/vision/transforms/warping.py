"""Transforms that turn, shear, move and distort."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from refluid.paddle.vision.transforms import functional
from refluid.paddle.vision.transforms.base import BaseTransform


def _around_zero(name: str, value: Any, counts: Sequence[int] = (2,)) -> list[float]:
    """[-value, value] of a number, or what is given; ValueError for a negative one."""
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(value), float(value)]
    if len(value) not in counts:
        raise ValueError(f"{name} should be a number or a sequence of length {counts[0]}.")
    return [float(one) for one in value]


class RandomRotation(BaseTransform):
    """Images turned by degrees from a range, [-degrees, degrees] for one number."""

    def __init__(
        self,
        degrees: Any,
        interpolation: str = "nearest",
        expand: bool = False,
        center: Any = None,
        fill: Any = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _around_zero("degrees", degrees)
        self.interpolation, self.expand = interpolation, expand
        self.center, self.fill = center, fill

    def _get_params(self, inputs: Any) -> float:
        return random.uniform(self.degrees[0], self.degrees[1])

    def _apply_image(self, img: Any) -> Any:
        how = self.interpolation, self.expand, self.center, self.fill
        return functional.rotate(img, self.params, *how)


class RandomAffine(BaseTransform):
    """Images turned, moved, scaled and sheared, each by what is drawn from a range.

    translate: the largest parts of width and height that they are moved by. shear: degrees in x,
    [-shear, shear] for one number, or two for x and two for y. ValueError for impossible ones.
    """

    def __init__(
        self,
        degrees: Any,
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: Any = None,
        interpolation: str = "nearest",
        fill: Any = 0,
        center: Any = None,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        self.degrees = _around_zero("degrees", degrees)
        if translate is not None and any(not 0.0 <= one <= 1.0 for one in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and any(one <= 0 for one in scale):
            raise ValueError("scale values should be positive")
        self.translate, self.scale = translate, scale
        self.shear = None if shear is None else _around_zero("shear", shear, (2, 4))
        self.interpolation, self.fill, self.center = interpolation, fill, center

    def _get_params(self, inputs: Any) -> Any:
        width, height = functional.size_of(inputs[self.keys.index("image")])
        angle = random.uniform(self.degrees[0], self.degrees[1])
        moved = (0, 0)
        if self.translate is not None:
            wide, high = self.translate[0] * width, self.translate[1] * height
            moved = int(random.uniform(-wide, wide)), int(random.uniform(-high, high))
        scale = 1.0 if self.scale is None else random.uniform(self.scale[0], self.scale[1])
        sheared = [0.0, 0.0]
        if self.shear is not None:
            sheared[0] = random.uniform(self.shear[0], self.shear[1])
            if len(self.shear) == 4:
                sheared[1] = random.uniform(self.shear[2], self.shear[3])
        return angle, moved, scale, sheared

    def _apply_image(self, img: Any) -> Any:
        angle, moved, scale, sheared = self.params
        how = self.interpolation, self.fill, self.center
        return functional.affine(img, angle, moved, scale, sheared, *how)


class RandomPerspective(BaseTransform):
    """Images seen from elsewhere, with a probability: each corner moves inwards.

    distortion_scale: by at most so much of half the width and height.
    """

    def __init__(
        self,
        prob: float = 0.5,
        distortion_scale: float = 0.5,
        interpolation: str = "nearest",
        fill: Any = 0,
        keys: Sequence[str] | None = None,
    ) -> None:
        super().__init__(keys)
        assert 0 <= prob <= 1, "probability must be between 0 and 1"
        assert 0 <= distortion_scale <= 1, "distortion_scale must be between 0 and 1"
        self.prob, self.distortion_scale = prob, distortion_scale
        self.interpolation, self.fill = interpolation, fill

    def get_params(self, width: int, height: int, distortion_scale: float) -> Any:
        """The corners, clockwise from the first, and where they go."""
        wide, high = width // 2, height // 2
        far = int(distortion_scale * wide), int(distortion_scale * high)

        def inwards(size: int, most: int, at_end: bool) -> int:
            low, high = (size - most - 1, size) if at_end else (0, most + 1)
            return int(random.uniform(low, high))

        ends = [
            [inwards(width, far[0], right), inwards(height, far[1], bottom)]
            for right, bottom in ((False, False), (True, False), (True, True), (False, True))
        ]
        starts = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        return starts, ends

    def _apply_image(self, img: Any) -> Any:
        if random.random() >= self.prob:
            return img
        width, height = functional.size_of(img)
        starts, ends = self.get_params(width, height, self.distortion_scale)
        return functional.perspective(img, starts, ends, self.interpolation, self.fill)
