"""What transforms share: they change the parts of a sample that their keys name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Compose:
    """Transforms one after the other."""

    def __init__(self, transforms: Sequence[Any]) -> None:
        self.transforms = transforms

    def __call__(self, data: Any) -> Any:
        """The data after all of them."""
        for one in self.transforms:
            data = one(data)
        return data

    def __repr__(self) -> str:
        listed = "".join(f"\n    {one}" for one in self.transforms)
        return f"{type(self).__name__}({listed}\n)"


class BaseTransform:
    """Base of transforms. A transform overrides `_apply_image` and what else it can change.

    keys: what the parts of a sample are, `image`, `coords`, `boxes`, `mask` or a name for which
    there is `_apply_NAME`; parts beyond them, and those named None, stay as they are. Without
    keys a sample is an image, or begins with one. ValueError for keys that are no list.
    """

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        if keys is not None and not isinstance(keys, list | tuple):
            raise ValueError(f"keys should be a list or tuple, but got keys={keys}")
        self.keys = ("image",) if keys is None else tuple(keys)
        self.params: Any = None

    def _get_params(self, inputs: Any) -> Any:
        """What is drawn once for all parts of a sample."""
        return None

    def __call__(self, inputs: Any) -> Any:
        """The sample, changed."""
        parts = inputs if isinstance(inputs, tuple) else (inputs,)
        self.params = self._get_params(parts)
        found = [
            part if key is None else self._apply(key)(part)
            for key, part in zip(self.keys, parts, strict=False)
        ]
        found += parts[len(self.keys) :]
        return found[0] if len(found) == 1 else tuple(found)

    def _apply(self, key: str) -> Any:
        found = getattr(self, f"_apply_{key}", None)
        if found is None:
            raise NotImplementedError(f"{type(self).__name__} does not change {key!r}")
        return found

    def _apply_image(self, image: Any) -> Any:
        raise NotImplementedError

    def _apply_boxes(self, boxes: Any) -> Any:
        raise NotImplementedError

    def _apply_mask(self, mask: Any) -> Any:
        raise NotImplementedError


def as_range(name: str, value: Any, center: float, low: float, high: float) -> Any:
    """(least, most) of a number or of two; None for no change.

    ValueError for a negative number and beyond (low, high), TypeError for what is neither.
    """
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be non negative.")
        found = [center - value, center + value]
        if center == 1:
            found[0] = max(found[0], 0.0)
    elif isinstance(value, list | tuple) and len(value) == 2:
        found = list(value)
    else:
        raise TypeError(f"{name} should be a single number or a list/tuple with length 2.")
    if not low <= found[0] <= found[1] <= high:
        raise ValueError(f"{name} values should be between {(low, high)}")
    return None if found[0] == found[1] == center else found
