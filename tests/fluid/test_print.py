"""What `Print` writes."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from refluid import fluid


class Writes(io.StringIO):
    """Standard output that keeps each write apart."""

    def __init__(self) -> None:
        super().__init__()
        self.each: list[str] = []

    def write(self, text: str) -> int:
        self.each.append(text)
        return super().write(text)


def test_a_value_is_written_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that what replicas print at the same time is not mixed."""
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        fluid.layers.Print(fluid.data("x", [2]), message="here")
        found = Writes()
        monkeypatch.setattr(sys, "stdout", found)
        fluid.Executor().run(feed={"x": np.ones(2, "float32")})
    (text,) = found.each
    assert text.startswith("here\n")
    assert text.endswith("data: [1.0, 1.0]\n")
