"""Kernels are chosen by what was measured, and one measurement is enough."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from refluid.kernels import processor


class Clock:
    """Time passes only as work takes it."""

    def __init__(self) -> None:
        self.now = 0.0

    def work(self, seconds: list[float]) -> Callable[[], None]:
        """Takes each of the times in turn."""
        left = iter(seconds)

        def work() -> None:
            self.now += next(left)

        return work


@pytest.mark.parametrize(
    ("ours", "others", "faster"),
    [
        ([1.0], [2.0], True),
        ([2.0], [1.0], False),
        ([1.0], [1.2], False),
        # The processor is taken away now and then: the shortest times count.
        ([9.0, 1.0, 7.0, 1.0, 9.0], [2.0], True),
        ([50.0, 1.1], [1.0] * 2 + [50.0] * 9, False),
        ([1.0], [50.0] * 30 + [1.1], False),
    ],
)
def test_the_shortest_times_decide(ours: list[float], others: list[float], faster: bool) -> None:
    clock = Clock()
    whole = [(times * processor._TIMES)[: processor._TIMES] for times in (ours, others)]
    one, other = processor.shortest(*map(clock.work, whole), lambda: clock.now)
    assert (other / one >= processor.CLEARLY) == faster


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_it_is_measured_once_and_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_speeds", {})
    measured: list[tuple[bool, int]] = []
    whole, threads = processor._measured, torch.get_num_threads()

    def noted(many: bool, by: int) -> float:
        measured.append((many, by))
        return whole(many, by)

    monkeypatch.setattr(processor, "_measured", noted)
    there = torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    with _Seen() as seen:
        many = processor.onednn_speed(2000)
        assert measured == [(True, threads)] * there  # what isn't asked for isn't measured
        few = processor.onednn_speed(20)
        assert [processor.onednn_speed(rows) for rows in (32, 33)] == [few, many]
    assert processor.onednn_speed() == many
    assert seen.calls == 0
    assert measured == [(True, threads), (False, threads)] * there
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("threads", [1, 2])
def test_products_are_measured_by_as_many_threads_as_will_compute_them(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, object]] = []

    def other_times(*given: object) -> tuple[float, float]:
        seen.append((torch.get_num_threads(), given[2]))
        return 1.0, 1.0 + len(seen)

    monkeypatch.setattr(processor, "shortest", other_times)
    clock = time.perf_counter if threads > 1 else time.thread_time
    assert [processor._measured(many, threads) for many in (False, True)] == [2.0, 3.0]
    assert seen == [(threads, clock)] * 2


def test_what_fails_is_not_faster() -> None:
    before = threading.excepthook
    threading.excepthook = lambda _: None
    try:
        assert processor.apart(lambda: 1 / 0, 1) == 0.0
    finally:
        threading.excepthook = before


def test_bfloat16_is_measured_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[torch.dtype]] = []

    def first_is_faster(
        one: Callable[[], torch.Tensor], other: Callable[[], torch.Tensor], _: object
    ) -> tuple[float, float]:
        seen.append({one().dtype, other().dtype})
        return (1.0, 2.0) if one().dtype is torch.bfloat16 else (2.0, 1.0)

    monkeypatch.setattr(processor, "shortest", first_is_faster)
    processor.bfloat16_multiplies_faster.cache_clear()
    try:
        assert processor.bfloat16_multiplies_faster()
        assert processor.bfloat16_multiplies_faster()
    finally:
        processor.bfloat16_multiplies_faster.cache_clear()
    assert seen == [{torch.bfloat16, torch.float32}]
