"""Arrays go to torch however they lie in memory."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.arrays import is_plain, plain
from refluid.engine.splitting import _one_memory

ROW = np.arange(6, dtype="float32").reshape(2, 3)
RECORDS = np.zeros(3, [("x", "<f4"), ("y", "i1")])


def _read_only() -> Any:
    array = ROW.copy()
    array.setflags(write=False)
    return array


LAID_OUT: dict[str, Any] = {
    "a reversed row": ROW[:1][::-1],
    "reversed rows": ROW[::-1],
    "a number of a record": RECORDS[:1]["x"],
    "numbers of records": RECORDS["x"],
    "columns": ROW.T,
    "read-only": _read_only(),
    "other bytes first": ROW.astype(">f4"),
    "none": ROW[:0],
}


@pytest.mark.parametrize("name", LAID_OUT)
def test_torch_takes_every_array(name: str) -> None:
    array = LAID_OUT[name]
    made = plain(array, "it")
    assert is_plain(made)
    assert np.array_equal(torch.from_numpy(made).numpy(), array)


def test_what_torch_takes_is_not_copied() -> None:
    assert plain(ROW, "it") is ROW
    assert np.shares_memory(_one_memory(ROW).numpy(), ROW)


@pytest.mark.parametrize("name", [one for one in LAID_OUT if "bytes" not in one])
def test_every_array_can_be_fed(name: str) -> None:
    array = LAID_OUT[name]
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        x = fluid.data("x", [-1] * array.ndim, "float32")
        y = fluid.layers.scale(x, 2.0)
    executor = fluid.Executor()
    (found,) = executor.run(main, {"x": array}, [y])
    assert np.array_equal(found, array * 2)
    tensor = fluid.LoDTensor()
    tensor.set(array, fluid.CPUPlace(), zero_copy=True)
    assert np.array_equal(np.array(tensor), array)
    two = fluid.CompiledProgram(main).with_data_parallel(places=fluid.cpu_places(1))
    (found,) = executor.run(two, {"x": array}, [y])
    assert np.array_equal(found, array * 2)
