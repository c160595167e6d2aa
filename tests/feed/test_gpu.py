"""The double buffer on a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.feed.leftovers import assert_nothing_left

pytestmark = pytest.mark.gpu
COUNT = 12


def _batches() -> Iterator[Any]:
    shared = np.zeros((256, 256), "float32")
    for number in range(COUNT):
        shared[:] = number
        yield [shared]


@pytest.mark.parametrize("multiprocess", [False, True])
@pytest.mark.parametrize("double", [False, True])
def test_batches_arrive_on_the_device(multiprocess: bool, double: bool) -> None:
    place = fluid.CUDAPlace(0)
    with fluid.program_guard(fluid.Program()):
        data = fluid.data("x", [None, 256])
    loader: Any = fluid.io.DataLoader.from_generator(
        [data], 3, use_double_buffer=double, use_multiprocess=multiprocess
    )
    loader.set_batch_generator(_batches, place)
    for _ in range(2):
        found = [step[0]["x"].tensor for step in loader()]
        assert all(tensor.is_cuda for tensor in found)
        assert [tensor.unique().tolist() for tensor in found] == [[n] for n in range(COUNT)]
    del loader, found
    assert_nothing_left()


def test_a_program_reads_on_the_device() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        reader: Any = fluid.layers.py_reader(3, [(-1, 256)], ["float32"])
        mean = fluid.layers.mean(fluid.layers.read_file(reader))
    reader.decorate_batch_generator(_batches)
    executor = fluid.Executor(fluid.CUDAPlace(0))
    executor.run(startup)
    for _ in range(2):
        reader.start()
        found = [executor.run(main, fetch_list=[mean])[0].item() for _ in range(COUNT)]
        assert found == list(range(COUNT))
        with pytest.raises(fluid.core.EOFException):
            executor.run(main)
        reader.reset()
    assert_nothing_left()
