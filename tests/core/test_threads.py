"""How many threads one operator uses, and where refluid may choose the number."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from refluid import fluid
from refluid.core import flags, threads
from refluid.core.threads import free_threads, operator_threads, use_operator_threads, use_threads
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


@pytest.fixture
def free(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Torch took two threads by itself, and nobody said anything else."""
    monkeypatch.setattr(threads, "_AT_START", 2)
    monkeypatch.setattr(threads, "_CHOSEN", False)
    with flags.override({"FLAGS_refluid_adaptive_threads": True}):
        yield


@pytest.mark.usefixtures("free")
def test_threads_that_torch_took_by_itself_may_be_fewer() -> None:
    assert free_threads() == 2


@pytest.mark.usefixtures("free")
@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("refluid_adaptive_threads", False),
        ("paddle_num_threads", 2),
        ("cpu_deterministic", True),
        ("cudnn_deterministic", True),
    ],
)
def test_a_flag_keeps_them(flag: str, value: object) -> None:
    with flags.override({f"FLAGS_{flag}": value}):
        assert free_threads() == 1
    assert free_threads() == 2


@pytest.mark.usefixtures("free")
def test_numbers_that_the_user_chose_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    with use_threads(3):
        assert torch.get_num_threads() == 3 and free_threads() == 1
    assert torch.get_num_threads() == 2
    monkeypatch.setattr(threads, "_CHOSEN", True)
    assert free_threads() == 1


@pytest.mark.usefixtures("free")
def test_repeatable_numbers_of_torch_keep_them() -> None:
    torch.use_deterministic_algorithms(True)
    try:
        assert free_threads() == 1
    finally:
        torch.use_deterministic_algorithms(False)


@pytest.mark.usefixtures("free")
def test_the_share_of_a_replica_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(4)
    monkeypatch.setattr(threads, "_AT_START", 4)
    replicas = Replicas(2)
    try:
        assert replicas.run(lambda rank: (torch.get_num_threads(), free_threads())) == [(2, 1)] * 2
    finally:
        replicas.close()
