"""Subnormal results as zeros: in all threads, for as long as was asked for."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
import torch

from refluid.kernels import subnormals

pytestmark = pytest.mark.skipif(subnormals._functions() is None, reason="not x86-64 with glibc")

SUBNORMAL = torch.tensor([1 << 20], dtype=torch.int32).view(torch.float32)  # 1.5e-39, by its bits


@pytest.fixture(autouse=True)
def _kept() -> Iterator[None]:
    yield
    subnormals.keep()
    torch.set_flush_denormal(False)


def _left(size: int = 1 << 18) -> int:
    """How many results of two normal numbers are there still, of many that several threads make."""
    made = torch.full((size,), 1e-30).mul_(1e-9)
    return int((made.view(torch.int32) != 0).sum())


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_in_all_threads_and_back(threads: int) -> None:
    former = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        assert _left() == 1 << 18
        for _ in range(3):
            subnormals.flush()
            assert _left() == 0
            subnormals.keep()
            assert _left() == 1 << 18
    finally:
        torch.set_num_threads(former)


def test_what_was_subnormal_before_is_read_as_it_is() -> None:
    given = SUBNORMAL.repeat(1 << 17)
    subnormals.flush()
    assert bool((given * 1e10 > 1e-30).all())


def test_a_second_call_changes_nothing() -> None:
    subnormals.flush()
    subnormals.flush()
    subnormals.keep()
    assert _left() == 1 << 18
    subnormals.keep()
    assert _left() == 1 << 18


def test_who_has_it_anyhow_keeps_it() -> None:
    torch.set_flush_denormal(True)
    subnormals.flush()
    subnormals.keep()
    assert _left(10) == 0


def test_another_thread_has_its_own() -> None:
    subnormals.flush()
    found: list[int] = []
    # A new thread begins with the environment of the one that starts it, and has nothing to undo.
    other = threading.Thread(target=lambda: found.extend([subnormals.keep() or _left(10)]))
    other.start()
    other.join()
    assert found == [0]
    assert _left() == 0


def test_the_rounding_stays() -> None:
    before = (torch.rand(1000, generator=torch.Generator().manual_seed(1)) / 3).sum()
    subnormals.flush()
    after = (torch.rand(1000, generator=torch.Generator().manual_seed(1)) / 3).sum()
    assert torch.equal(before, after)
