"""FLAGS_paddle_num_threads: how many threads one operator uses."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.threads import operator_threads, use_operator_threads
from refluid.runtime.replicas import Replicas


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    former = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(former)


def replica_threads(count: int) -> list[int]:
    replicas = Replicas(count)
    try:
        return replicas.run(lambda rank: torch.get_num_threads())
    finally:
        replicas.close()


def test_torch_decides_until_the_flag_is_set() -> None:
    assert operator_threads() == 2
    assert operator_threads(2) == operator_threads(8) == 1
    use_operator_threads()
    assert torch.get_num_threads() == 2
    assert replica_threads(2) == [1, 1]


@pytest.mark.parametrize("given", [1, 2, 3])
def test_the_flag_is_for_each_operator(given: int) -> None:
    with flags.override({"FLAGS_paddle_num_threads": given}):
        assert operator_threads() == operator_threads(4) == given
        assert replica_threads(2) == [given, given]
        main = fluid.Program()
        with fluid.program_guard(main, fluid.Program()):
            out = fluid.layers.fill_constant([1], "float32", 1.0)
        fluid.Executor().run(main, fetch_list=[out])
        assert torch.get_num_threads() == given
    assert operator_threads() == given  # torch keeps it
