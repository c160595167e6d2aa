"""Indices with steps backwards beside masks, lists and new dimensions, against NumPy's."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from refluid import fluid

D = fluid.dygraph
SHAPE = (4, 5, 3)
ARRAY = np.arange(60.0).reshape(SHAPE)


def _indices(seed: int) -> Any:
    """Slices of any direction, with `...`, new dimensions, one list or one mask among them.

    They take something: Fluid refuses slices of nothing.
    """
    draw = random.Random(seed)
    while True:
        found = _index(draw)
        if ARRAY[found].size:
            return found


def _index(draw: random.Random) -> Any:
    parts: list[Any] = []
    for size in SHAPE[: draw.randint(1, 3)]:
        ends = [None, *range(-size - 1, size + 2)]
        parts.append(slice(draw.choice(ends), draw.choice(ends), draw.choice([None, 2, -1, -2])))
    place = draw.randrange(len(parts))
    size = SHAPE[place]
    mask = np.arange(size) % 2 == 0
    parts[place] = draw.choice([parts[place], [size - 1, 0], np.array([1, 0]), mask])
    if draw.random() < 0.5:
        parts.insert(draw.randrange(len(parts) + 1), None)
    if draw.random() < 0.3 and len(parts) < len(SHAPE):
        parts.append(...)
    return tuple(parts)


@pytest.mark.parametrize("seed", range(150))
def test_elements_and_gradients(seed: int) -> None:
    index = _indices(seed)
    with D.guard():
        x = D.to_variable(ARRAY)
        x.stop_gradient = False
        wanted = ARRAY[index]
        found = x[index]
        np.testing.assert_array_equal(found.numpy(), wanted)
        fluid.layers.reduce_sum(found * found).backward()
    slopes = np.zeros_like(ARRAY)
    np.add.at(slopes, index, 2 * wanted)
    np.testing.assert_allclose(x.gradient(), slopes)


@pytest.mark.parametrize("takes", [False, True])
@pytest.mark.parametrize("seed", range(60))
def test_elements_are_overwritten(seed: int, takes: bool) -> None:
    index = _indices(seed)
    wanted = ARRAY.copy()
    given = -1.0 - np.arange(wanted[index].size).reshape(wanted[index].shape)
    wanted[index] = given
    with D.guard():
        x = D.to_variable(ARRAY)
        x.stop_gradient = not takes
        changed = x * 1.0
        changed[index] = D.to_variable(given)
        np.testing.assert_array_equal(changed.numpy(), wanted)
        if takes:
            fluid.layers.reduce_sum(changed).backward()
            np.testing.assert_array_equal(x.gradient(), (wanted >= 0).astype("float64"))


def test_what_does_not_fit_is_told() -> None:
    with D.guard():
        x = D.to_variable(ARRAY)
        says = r"what is given has shape \[2\] and can't be broadcast to \[4, 5, 3\]"
        with pytest.raises(ValueError, match=says):
            x[::-1] = D.to_variable(np.ones(2))
