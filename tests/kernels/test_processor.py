"""Kernels are chosen by what was measured, and one measurement is enough."""

from __future__ import annotations

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
        ([1.0] * 8, [2.0] * 8, True),
        ([2.0] * 8, [1.0] * 8, False),
        ([1.0] * 8, [1.2] * 8, False),
        # The processor is taken away now and then: the shortest times count.
        ([9.0, 1.0, 7.0, 1.0, 9.0, 9.0, 9.0, 9.0], [2.0] * 8, True),
        ([1.0] * 8, [50.0] * 7 + [1.1], False),
    ],
)
def test_the_shortest_times_decide(ours: list[float], others: list[float], faster: bool) -> None:
    clock = Clock()
    one, other = processor.shortest(clock.work(ours), clock.work(others), lambda: clock.now)
    assert (other / one >= processor.CLEARLY) == faster


class _Seen(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.calls = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.calls += 1
        return func(*args, **(kwargs or {}))


def test_it_is_measured_once_and_unseen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processor, "_speed", None)
    measured: list[float] = []
    whole = processor._measured
    monkeypatch.setattr(processor, "_measured", lambda: measured.append(whole()) or measured[-1])
    with _Seen() as seen:
        first = processor.onednn_speed()
        assert processor.onednn_speed() == first
    assert seen.calls == 0
    assert len(measured) == int(
        torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()
    )


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
