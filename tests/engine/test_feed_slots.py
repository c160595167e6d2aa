"""A slot that has seen arrays before converts and refuses as one that has seen none."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.offsets import as_lod
from refluid.engine.feeds import FeedSlot
from refluid.ir.variable import Variable


def variable(draws: np.random.Generator) -> Variable:
    shape = [None, *draws.integers(1, 3, int(draws.integers(0, 3))).tolist()]
    kind = ["float32", "int64"][int(draws.integers(2))]
    declare = fluid.data if draws.random() < 0.5 else plain_data
    with fluid.program_guard(fluid.Program()):
        found: Variable = declare("x", shape, kind)
    return found


def plain_data(name: str, shape: list[int | None], kind: str) -> Any:
    return fluid.layers.data(name, [-1 if one is None else one for one in shape], False, kind)


def value(draws: np.random.Generator, var: Variable) -> Any:
    """An array, mostly one that fits: of any rows, layouts, orders of bytes and element types."""
    rows = int(draws.integers(1, 4))
    shape = [rows if one < 0 else one for one in var.shape]
    if draws.random() < 0.1:
        shape.append(1)
    dtype = np.dtype("float32" if var.dtype == fluid.core.VarDesc.VarType.FP32 else "int64")
    if draws.random() < 0.2:
        dtype = np.dtype(draws.choice([">f4", "float64", "int32", "<i8", "complex64", "uint16"]))
    array = draws.integers(0, 9, shape).astype(dtype)
    odd = draws.random()
    if odd < 0.1:
        array = np.asfortranarray(array)
    elif odd < 0.2:
        array = np.concatenate([array, array])[::2]
    elif odd < 0.3:
        array = array[::-1]
    elif odd < 0.4:
        array.flags.writeable = False
    elif odd < 0.45:
        return array.tolist()
    elif odd < 0.5 and dtype != np.uint16:
        return fluid.create_lod_tensor(array, [[rows]], fluid.CPUPlace())
    elif odd < 0.55:
        return array.view(np.recarray)
    return array


def converted(slot: FeedSlot, given: Any) -> Any:
    try:
        tensor, lod = slot.convert(given)
    except Exception as error:
        return type(error), str(error)
    shares = isinstance(given, np.ndarray) and tensor.data_ptr() == given.ctypes.data
    return tensor.dtype, tensor.tolist(), tensor.stride(), as_lod(lod), shares


@pytest.mark.parametrize("seed", range(40))
def test_what_was_seen_before_makes_no_difference(seed: int) -> None:
    draws = np.random.default_rng(seed)
    var = variable(draws)
    slot = FeedSlot(var, torch.device("cpu"))
    for _ in range(60):
        given = value(draws, var)
        fresh = FeedSlot(var, torch.device("cpu"))
        assert converted(slot, given) == converted(fresh, given)


def test_only_arrays_as_the_last_one_are_taken_without_a_look(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[Any] = []
    full = FeedSlot._convert
    monkeypatch.setattr(
        FeedSlot, "_convert", lambda self, one, *how: [looked.append(one), full(self, one, *how)][1]
    )
    with fluid.program_guard(fluid.Program()):
        slot = FeedSlot(fluid.data("x", [None, 2]), torch.device("cpu"))
    two, three = np.ones((2, 2), "float32"), np.ones((3, 2), "float32")
    for given in (two, two, two + 1, three, three, two, np.asfortranarray(two)):
        slot.convert(given)
    assert [len(one) for one in looked] == [2, 3, 2, 2]
