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
from refluid.runtime.inlined.shapes import PURE, RULES, SEVERAL, FollowedShape, shapes_of
from refluid.runtime.inlined.trace import Trace
from refluid.runtime.printing import show
from refluid.runtime.source import PlanSource
from refluid.runtime.trees import Formula, Name

ONE_TENSOR = """tanh relu sigmoid exp log neg abs sqrt rsqrt reciprocal square sign floor erf detach
    clone empty_like zeros_like ones_like logical_not contiguous long int float double bool"""
TWO_TENSORS = """add sub mul div true_divide maximum minimum eq ne lt le gt ge pow logical_and
    logical_or logical_xor floor_divide remainder rsub"""
METHODS = """contiguous long int float double bool to view reshape expand new_zeros new_ones
    new_empty new_full"""


class _Examples:
    """Calls of every function that has a rule, with sizes at random."""

    def __init__(self, draw: np.random.RandomState) -> None:
        a, b, c = self.sizes = tuple(int(one) for one in draw.randint(1, 6, 3))
        self.x, self.y, self.w = (torch.rand(*one) + 1 for one in ((a, b), (a, b), (b, c)))
        self.cube, self.row, self.column = torch.rand(a, b, c), torch.rand(b), torch.rand(a, 1)
        self.ids, self.places = torch.randint(0, a, (c, 2)), torch.randint(0, b, (a, c))

    def all(self) -> dict[str, list[tuple[Any, ...]]]:
        return {**self._alike(), **self._of_rows(), **self._of_shapes()}

    def _alike(self) -> dict[str, list[tuple[Any, ...]]]:
        x, y, cube, row, column = self.x, self.y, self.cube, self.row, self.column
        pairs = [(x, y), (x, row), (x, column), (cube, self.w)]
        return {
            **{name: [(x,), (cube,)] for name in ONE_TENSOR.split()},
            **dict.fromkeys(TWO_TENSORS.split(), pairs),
            "to": [(x, torch.float64)],
            "full_like": [(x, 2.0)],
            "clamp": [(x, 0, 1)],
            "clamp_min": [(x, 0)],
            "clamp_max": [(x, 0)],
            "cumsum": [(cube, 1)],
            "softmax": [(cube, 1)],
            "log_softmax": [(x, -1)],
            "_softmax": [(cube, 1, False)],
            "masked_fill": [(x, x > 0.5, 0.0)],
            "tanh_backward": [(x, y)],
            "sigmoid_backward": [(x, y)],
            "threshold_backward": [(x, y, 0)],
            "_softmax_backward_data": [(x, y, -1, torch.float32)],
            "where": [(x > 0.5, x, y), (x > 0.5, x, row)],
            "addcmul": [(x, y, row)],
            "addcdiv": [(x, y, row)],
        }

    def _of_rows(self) -> dict[str, list[tuple[Any, ...]]]:
        (a, b, c), x, y, ids, places = self.sizes, self.x, self.y, self.ids, self.places
        return {
            "scatter": [(x, 1, places, torch.rand(a, max(b, c)))],
            "scatter_add": [(x, 1, places, torch.rand(a, c))],
            "index_add": [(x, 0, ids[:, 0], torch.rand(c, b))],
            "index_copy": [(x, 0, ids[:, 0], torch.rand(c, b))],
            "mm": [(x, self.w)],
            "addmm": [(torch.rand(c), x, self.w)],
            "embedding": [(x, ids), (x, ids[0])],
            "gather": [(x, 1, places)],
            "index_select": [(x, 0, ids[0]), (x, -1, places[0])],
            "cat": [((x, y), 0), ([x, torch.rand(a, c)], 1), ((x,), -1)],
        }

    def _of_shapes(self) -> dict[str, list[tuple[Any, ...]]]:
        (a, b, c), x, cube, row, column = self.sizes, self.x, self.cube, self.row, self.column
        reduced = [(cube,), (cube, 1), (cube, (0, 2)), (x, [0], True)]
        return {
            "t": [(x,), (row,)],
            "transpose": [(cube, 0, 2), (x, -1, 0)],
            "unsqueeze": [(x, 0), (x, 1), (x, -1)],
            "view": [(cube, a, -1), (cube, (-1,)), (x, -1, 1, b), (cube, (a * b, c))],
            "reshape": [(cube, -1, c), (x, [a, 1, b]), (x, 1, -1)],
            "flatten": [(cube, 1), (cube,), (cube, 0, 1)],
            "zeros": [(a, b), ((a, b),), ([a],)],
            "ones": [(a, b)],
            "empty": [((a, b),)],
            "full": [((a, b), 1.0)],
            "new_zeros": [(x, a, b), (x, (c,))],
            "new_ones": [(x, (a, b))],
            "new_empty": [(x, (a, 0))],
            "new_full": [(x, (a, b), 2.0), (x, (), 2.0)],
            **{name: [(cube, 1), (cube, 0, True)] for name in ("amax", "amin", "any", "all")},
            **dict.fromkeys(("sum", "mean"), reduced),
            **{name: [(cube, 1), (x, -1, True)] for name in SEVERAL},
            "expand": [(column, a, c), (column, (-1, c)), (row, (a, b))],
            "arange": [(a,)],
        }


def _function(name: str) -> Callable[..., Any]:
    if name in METHODS.split():
        return getattr(Tensor, name)
    return getattr(torch, name, None) or getattr(torch.ops.aten, name)


@pytest.mark.parametrize("seed", range(8))
def test_rules_give_the_shapes_that_torch_gives(seed: int) -> None:
    examples = _Examples(np.random.RandomState(seed)).all()
    operators = {name for name in RULES if name.startswith("__")}
    assert examples.keys() == (RULES.keys() | SEVERAL) - operators
    told = 0
    for name, calls in examples.items():
        for args in calls:
            result = _function(name)(*args)
            found = shapes_of(name, lambda one: tuple(one.shape), args, {})
            several = result if isinstance(result, tuple) else (result,)
            told += found is not None
            assert found is None or all(tuple(one.shape) == found for one in several), (name, args)
    assert told > 0.9 * sum(map(len, examples.values()))


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
        lambda n: 1 / n,
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


def test_how_many_tensors_there_are_may_not_follow_from_sizes() -> None:
    x = torch.ones(4, 2)
    for use in (x.unbind, lambda: x.split(2), lambda: x.chunk(2), lambda: [*x], x.squeeze):
        with pytest.raises(Unfollowed):
            _Steps(x=x).calls(use)


def test_tensors_of_unknown_origin_are_refused() -> None:
    x, other = torch.ones(4, 2), torch.ones(4, 2)
    with pytest.raises(Unfollowed, match="no call made"):
        _Steps(x=x).calls(lambda: x + other)


def test_no_condition_comes_after_something_was_written() -> None:
    x = torch.ones(4, 2)

    def body() -> None:
        y = x.tanh()
        torch.add(y, 1, out=y)
        found = torch.embedding_bag(y, torch.tensor([0, 1]), torch.tensor([0]))
        assert found[0].shape[0] > 0

    with pytest.raises(Unfollowed):
        _Steps(x=x).calls(body)


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


def test_rules_are_of_functions_without_effects() -> None:
    assert not [name for name in PURE if name.endswith("_") and not name.startswith("__")]
