"""Fetched tensors are given as they are only where counting references tells that nobody else

holds them; where counting can't be relied on, they are copied.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.kernels import handover, holders


@pytest.fixture(autouse=True)
def _anew() -> Any:
    handover.counts_tell.cache_clear()
    yield
    handover.counts_tell.cache_clear()


def test_counts_tell_here() -> None:
    assert handover.counts_tell()
    mine = torch.ones(3)
    place = mine.data_ptr()
    assert handover.own_value(mine) is mine
    other = mine
    assert handover.own_value(mine).data_ptr() != place and other is mine


def count_one_more(thing: Any) -> int:
    return handover.SOLE


FAULTS: list[tuple[Any, str, Callable[..., Any]]] = [
    (handover, "getrefcount", count_one_more),
    (holders, "holders", lambda tensor: 1),
    (handover, "lies_alone", lambda tensor: True),
    (holders, "getrefcount", lambda tensor: holders._IDLE[1]),
]


@pytest.mark.parametrize(
    ("place", "name", "fault"), FAULTS, ids=["references", "storages", "memory", "views"]
)
def test_wrong_counts_are_found_and_everything_is_copied(
    place: Any, name: str, fault: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(place, name, fault)
    assert not handover.counts_tell()
    mine = torch.ones(3)
    assert handover.own_value(mine) is not mine


def test_a_view_of_what_nobody_else_holds() -> None:
    with torch.no_grad():
        mine = torch.ones(4).view(2, 2)
        assert handover.own_value(mine) is mine
        part = torch.ones(4)[:2]
        assert handover.own_value(part) is not part
        whole = torch.ones(4)
        mine = whole.view(2, 2)
        assert handover.own_value(mine) is not mine


def test_a_torch_that_does_not_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holders, "_count", None)
    mine = torch.ones(3)
    assert holders.holders(mine) is None
    assert handover.own_value(mine) is not mine


def test_later_steps_leave_what_was_fetched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With wrong counts, as with right ones, for all that the memory is a parameter's."""
    monkeypatch.setattr(handover, "getrefcount", count_one_more)
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 3])
        loss = fluid.layers.mean(fluid.layers.fc(x, 2, param_attr="w"))
        fluid.optimizer.SGD(1.0).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    exe.run(startup, scope=scope)
    feed = {"x": np.ones((2, 3), np.float32)}
    (first,) = exe.run(main, feed, ["w"], scope=scope, return_numpy=False)
    before = np.array(first)
    exe.run(main, feed, ["w"], scope=scope)
    assert (np.array(first) == before).all()
