"""Rules for the shapes of torch's functions: those that torch gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.runtime.inlined.shapes import PURE, RULES, SEVERAL, shapes_of

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
            "clamp": [(x, 0, 1), (x, row, y), (column, row, y)],
            "clamp_min": [(x, 0)],
            "clamp_max": [(x, 0)],
            "cumsum": [(cube, 1)],
            "softmax": [(cube, 1)],
            "log_softmax": [(x, -1)],
            "_softmax": [(cube, 1, False)],
            "masked_fill": [(x, x > 0.5, 0.0), (row, x > 0.5, 0.0), (column, x > 0.5, 0.0)],
            "tanh_backward": [(x, y), (column, y)],
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
        reduced = [(cube,), (cube, 1), (cube, (0, 2)), (x, [0], True), (cube, ())]
        return {
            "t": [(x,), (row,)],
            "transpose": [(cube, 0, 2), (x, -1, 0)],
            "mT": [(cube,), (x,)],
            "unsqueeze": [(x, 0), (x, 1), (x, -1)],
            "squeeze": [(cube, 1), (column, -1), (cube, (0, 2)), (column.t(), [0])],
            "tensor": [((a, b, 2),), ([1.0],), (3,)],
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
    if name == "mT":
        return Tensor.mT.__get__
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


def test_rules_are_of_functions_without_effects() -> None:
    assert not [name for name in PURE if name.endswith("_") and not name.startswith("__")]
