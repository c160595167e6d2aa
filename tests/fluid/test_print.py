"""What `Print` writes."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags


class Writes(io.StringIO):
    """Standard output that keeps each write apart."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[str] = []

    def write(self, text: str) -> int:
        self.each.append(text)
        return super().write(text)


@contextmanager
def written() -> Iterator[list[str]]:
    """Each write to standard output within the block."""
    with redirect_stdout(Writes()) as found:
        yield found.each


def test_a_value_is_written_whole() -> None:
    """So that what replicas print at the same time is not mixed."""
    with written() as found, fluid.program_guard(fluid.Program(), fluid.Program()):
        fluid.layers.Print(fluid.data("x", [2]), message="here")
        fluid.Executor().run(feed={"x": np.ones(2, "float32")})
    assert found == [
        "Variable: x\n  - message: here\n  - lod: {}\n  - place: CPUPlace\n  - shape: [2]\n"
        "  - layout: NCHW\n  - dtype: float\n  - data: [1 1]\n"
    ]


def test_values_and_gradients_by_name_with_their_lod() -> None:
    with written() as found, fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 2], lod_level=1)
        x.stop_gradient = False
        shown = fluid.layers.Print(x, summarize=3)
        fluid.layers.Print(fluid.layers.cast(x, "int64"), print_tensor_name=False)
        fluid.append_backward(fluid.layers.reduce_sum(shown))
        rows = np.array([[1, 2.5], [1e-7, 3e10], [1 / 3, -1]], "float32")
        lod = fluid.create_lod_tensor(rows, [[2, 1]], fluid.CPUPlace())
        fluid.Executor().run(feed={"x": lod})
    value, numbers, gradient = found
    assert value.startswith("Variable: x\n  - lod: {{0, 2, 3}}\n")
    assert value.endswith(
        "  - shape: [3, 2]\n  - layout: NCHW\n  - dtype: float\n  - data: [1 2.5 1e-07]\n"
    )
    assert numbers.startswith("  - lod: {{0, 2, 3}}\n")
    assert "  - dtype: long\n  - data: [1 2 0 30000001024 0 -1]\n" in numbers
    assert gradient.startswith(f"Variable: {shown.name}@GRAD\n")
    assert gradient.endswith("  - data: [1 1 1]\n")


@pytest.mark.parametrize("tier", ["interpreted", "recorded", "compiled"])
def test_each_operator_counts_by_itself(tier: str) -> None:
    """Two of one message in one program, and those of a program and of its clone."""
    kept = flags.override({"FLAGS_refluid_tier": tier, "FLAGS_refluid_record_after": 1})
    with kept, written() as found, fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None])
        for _ in range(2):
            fluid.layers.Print(x, first_n=2, message="here")
        test = fluid.default_main_program().clone(for_test=True)
        for size in (1, 2, 1, 2, 2):
            fluid.Executor().run(feed={"x": np.ones(size, "float32")})
        assert len(found) == 4
        for _ in range(3):
            fluid.Executor().run(test, feed={"x": np.ones(1, "float32")})
    assert len(found) == 8
