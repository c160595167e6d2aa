"""What is fed: arrays of ordinary and of extreme numbers, laid out in other ways too."""

from __future__ import annotations

from typing import Any

import numpy as np

ORDINARY = "normal"
EXTREME = ("zeros", "negative", "ties", "large", "small", "equal", "mixed")
LAYOUTS = ("plain", "plain", "plain", "reversed", "transposed", "every other", "read-only")


def floats(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """An array (float32) of this kind of numbers."""
    random = np.random.RandomState(seed)
    normal = random.standard_normal(shape)
    made = {
        "zeros": lambda: normal * 0,
        "negative": lambda: -np.abs(normal),
        "ties": lambda: random.randint(-1, 2, shape),
        "large": lambda: normal * 1e4,
        "small": lambda: normal * 1e-30,
        "equal": lambda: np.full(shape, normal.flat[0] if normal.size else 0.0),
        "mixed": lambda: np.where(random.random_sample(shape) < 0.2, normal * 1e5, normal * 1e-3),
    }.get(kind, lambda: normal)
    return np.asarray(made(), "float32")


def whole(kind: str, shape: tuple[int, ...], below: int, seed: int) -> Any:
    """Ids (int64) below a number."""
    if kind in ("zeros", "equal"):
        return np.zeros(shape, "int64")
    most = 2 if kind == "ties" else below
    return np.random.RandomState(seed).randint(0, most, shape).astype("int64")


def laid_out(array: Any, layout: str) -> Any:
    """The same numbers in other memory."""
    if layout == "reversed" and array.ndim:
        return array[::-1].copy()[::-1]
    if layout == "transposed":
        return np.asfortranarray(array)
    if layout == "every other" and array.ndim:
        wide = np.repeat(array, 2, axis=-1)
        return wide[..., ::2]
    if layout == "read-only":
        array = array.copy()
        array.setflags(write=False)
    return array
