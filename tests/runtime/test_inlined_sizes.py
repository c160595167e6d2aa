"""Sizes that are followed while an operator is traced: what is done with them, and shapes of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core.offsets import Offsets
from refluid.runtime.inlined.calls import TracedCalls
from refluid.runtime.inlined.lengths import Length, Unfollowed
from refluid.runtime.inlined.shapes import FollowedShape
from refluid.runtime.inlined.trace import Trace
from refluid.runtime.printing import show
from refluid.runtime.source import PlanSource
from refluid.runtime.trees import Formula, Name


def _length(value: int, met: list[Formula] | None = None) -> Length:
    return Length(value, Name("n"), ([] if met is None else met).append)


def test_what_is_computed_of_a_size_is_an_expression() -> None:
    size = 3 * (_length(5) + 2) // 4 - 1 % _length(7)
    assert (size.value, repr(size)) == (3 * 7 // 4 - 1 % 7, "4")
    assert "n" in str(size.tree)


@pytest.mark.parametrize(
    "use",
    [
        lambda n: range(n),
        lambda n: [0] * n,
        lambda n: {n: 1},
        lambda n: np.arange(n),
        lambda n: np.zeros((n, 2)),
        lambda n: float(n),
        lambda n: (1 / n) * 2,
        lambda n: float(n / 3),
        lambda n: n / n == 1,
        lambda n: "a" / n,
        lambda n: n * 0.5,
        lambda n: math.sqrt(n),
        lambda n: "abc"[n],
        lambda n: [*range(9)][:n],
        lambda n: n**2,
        lambda n: divmod(n, 2),
    ],
)
def test_a_size_that_leaves_is_refused(use: Callable[[Any], Any]) -> None:
    with pytest.raises((Unfollowed, TypeError)):
        use(_length(3))


def test_a_quotient_of_sizes_is_for_torch_alone() -> None:
    quotient = _length(6) / 4
    assert quotient.value == 1.5
    steps = _Steps(x=torch.ones(4, 2))
    x = torch.ones(3, 2)
    steps.trace.take(x, steps.trace.root(x, Name("y"), None))
    assert "/" in steps.calls(lambda: x * (x.numel() / x.shape[0]))


def test_what_is_decided_by_a_size_is_a_condition() -> None:
    met: list[Formula] = []
    n = _length(5, met)
    assert n > 3 and n != 4 and not n > 7 and n and max(n, 9) == 9
    texts = [f"{one.form} {one.parts}" for one in met]
    assert len(texts) == 5
    assert "not" in texts[2]


class _Steps:
    """A trace, and tensors in it that are called x, y and so on."""

    def __init__(self, **given: Tensor) -> None:
        self.trace = Trace(PlanSource())
        self.trace.begin(None)
        for name, tensor in given.items():
            self.trace.take(tensor, self.trace.root(tensor, Name(name), None))

    def calls(self, body: Callable[[], Any]) -> str:
        with TracedCalls(self.trace):
            body()
        return " ".join(str(one) for one in self.trace.items)


def test_elements_that_a_body_reads_refuse_it() -> None:
    x = torch.ones(4, 2)
    for use in (x.item, x.tolist, x.numpy, x.nonzero, x.sum().item, lambda: bool(x[0, 0])):
        with pytest.raises(Unfollowed):
            _Steps(x=x).calls(use)


def test_what_elements_choose_is_refused_though_all_are_chosen() -> None:
    x = torch.ones(4)
    with pytest.raises(Unfollowed):
        _Steps(x=x).calls(lambda: torch.where(x > 0))
    assert "where" in _Steps(x=x).calls(lambda: torch.where(x > 0, x, x))


def test_how_many_tensors_there_are_may_not_follow_from_sizes() -> None:
    x = torch.ones(4, 2)
    for use in (
        x.unbind,
        lambda: x.split(2),
        lambda: x.chunk(2),
        lambda: [*x],
        x.squeeze,
        lambda: x.unsafe_chunk(2),
    ):
        with pytest.raises(Unfollowed):
            _Steps(x=x).calls(use)


def test_tensors_of_unknown_origin_are_refused() -> None:
    x, other = torch.ones(4, 2), torch.ones(4, 2)
    with pytest.raises(Unfollowed, match="no call made"):
        _Steps(x=x).calls(lambda: x + other)


def test_no_condition_comes_after_something_was_written() -> None:
    x = torch.ones(4, 2)

    def decides(y: Tensor, write: Callable[[Tensor], Any]) -> None:
        write(y)
        assert y.exp().cumsum(0).sort()[0].shape[0] > 0

    writes: list[Callable[[Tensor], Any]] = [
        lambda y: torch.add(y, 1, out=y),
        lambda y: y.add_(1),
        lambda y: torch.tanh(y[1:2], out=y[:1]),
        lambda y: y.__setitem__(0, 1.0),
    ]
    for write in writes:
        _Steps(x=x).calls(lambda write=write: decides(x.tanh(), write))
        for same in (x, x.view(-1), x.t()):
            with pytest.raises(Unfollowed):
                _Steps(x=x).calls(lambda one=same, write=write: decides(one.view_as(one), write))


def _conditions(steps: _Steps) -> list[str]:
    return [show(condition) for _, condition in steps.trace.conditions]


def test_sizes_that_have_to_be_equal_are_a_condition() -> None:
    x, y = torch.ones(4, 2), torch.ones(4, 2)
    steps = _Steps(x=x, y=y)
    before = len(_conditions(steps))
    steps.calls(lambda: x + y)
    assert len(_conditions(steps)) == before + 2


@pytest.mark.parametrize("x", [torch.ones(4, 2), torch.ones(2, 4).t()])
def test_how_a_tensor_lies_is_a_condition(x: Tensor) -> None:
    for asks in (x.is_contiguous, lambda: x.stride(0) == 1, lambda: x.storage_offset() == 0):
        steps = _Steps(x=x)
        before = _conditions(steps)
        steps.calls(asks)
        assert len(_conditions(steps)) == len(before) + 1


def test_sizes_that_the_program_declares_are_conditions() -> None:
    trace, x = Trace(PlanSource()), torch.ones(4, 2)
    trace.begin(None)
    seen = trace.root(x, Name("x"), (-1, 2))
    rows, columns = seen.sizes
    assert isinstance(rows, Length) and type(columns) is int
    assert [show(one) for one in seen.conditions] == [
        "x.dtype is kind",
        "len(x0s) == 2",
        "x0s[1] == 2",
    ]


def test_shapes_are_sizes_that_are_followed() -> None:
    x, seen = torch.ones(4, 2), []
    steps = _Steps(x=x)

    def body() -> None:
        seen.extend([x.shape, x.size(), x.size(1), x.numel(), x.shape[:1].numel()])

    steps.calls(body)
    shape, size, columns, elements, rows = seen
    assert isinstance(shape, FollowedShape) and [one.value for one in shape] == [4, 2]
    assert [one.value for one in (*size, columns, elements, rows)] == [4, 2, 2, 8, 4]


def test_levels_are_followed_likewise() -> None:
    trace = Trace(PlanSource())
    trace.begin(None)
    real = Offsets([0, 2, 2, 5])
    (level,) = trace.levels((real,), Name("l1")).levels
    assert [one.value for one in (level.total, level.count, level.longest)] == [5, 3, 3]
    assert level.some_empty and not level.all_are(2)
    assert [one.form for _, one in trace.conditions] == ["{}.some_empty", "not {}"]
    for use in (len, hash, lambda one: one.array, lambda one: one.lengths, bool):
        with pytest.raises(Unfollowed):
            use(level)
    assert torch.equal(level.owners(), real.owners())
