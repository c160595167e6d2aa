"""Compiled runs of kernels: what they do when the rows that a line makes are more or fewer."""

from __future__ import annotations

import ast
import itertools
from typing import Any

import torch
from torch import Tensor

from refluid.runtime.recorded.compile import compile_steps
from refluid.runtime.recorded.graph import Compiled, Kernel, Layout, Line, Step, Value

aten = torch.ops.aten
ROWS = 8


def _value(number: int) -> Value:
    layout = Layout(torch.Size([ROWS, 2]), (2, 1), torch.float32, torch.device("cpu"))
    return Value(f"z{number}", number, layout)


def _steps() -> list[Step]:
    """Rows from a line, their squares four times over, and a line that reads the last."""
    values = [_value(number) for number in range(1, 6)]
    made = Line(ast.parse("rows = looked_up()").body[0], {}, {"rows": values[0]})
    kernels = [
        Kernel(aten.square.default, (one,), {}, [other], frozenset())
        for one, other in itertools.pairwise(values)
    ]
    return [made, *kernels, Line(ast.parse("use(last)").body[0], {"last": values[-1]}, {})]


def test_other_rows_are_computed_by_the_kernels() -> None:
    compiled: list[int] = []

    def strict(module: Any, examples: list[Tensor]) -> Any:
        def function(rows: Tensor) -> Any:
            assert rows.shape == examples[0].shape
            compiled.append(len(rows))
            return module(rows)

        return function

    (step,) = [one for one in compile_steps(_steps(), strict) if isinstance(one, Compiled)]
    for count in (ROWS, ROWS - 1, ROWS + 1, ROWS):
        rows = torch.full((count, 2), 1.5)
        (found,) = step.function(rows)
        torch.testing.assert_close(found, rows**16)
    assert compiled == [ROWS, ROWS]
