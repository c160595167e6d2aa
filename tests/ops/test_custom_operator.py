"""The example of docs/custom_operators.md does what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.ops import registry

PAGE = Path(__file__).resolve().parents[2] / "docs" / "custom_operators.md"
OWN = "clipped_square"


@pytest.fixture
def example() -> Iterator[dict[str, Any]]:
    """What the page's code leaves, in a program of its own; its operator goes away afterwards."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    left: dict[str, Any] = {"__name__": "example"}
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        exec(compile(code, str(PAGE), "exec", dont_inherit=True), left)
        yield left
    for name in (OWN, OWN + "_grad"):
        registry.forget(name)


def test_example_prints_what_it_says(example: dict[str, Any]) -> None:
    (promised,) = re.findall(r"print\(total, grad\)  # (.*)", PAGE.read_text(encoding="utf-8"))
    assert f"{example['total']} {example['grad']}" == promised


def test_the_operator_has_a_shape_rule_and_a_name(example: dict[str, Any]) -> None:
    x = fluid.data("more", [None, 2])
    assert tuple(example["clipped_square_layer"](x, limit=1.0).shape) == (-1, 2)
    with pytest.raises(ValueError, match="registered twice"):
        registry.operator(OWN, outputs="Out")(example[OWN])


def test_a_saved_program_finds_it(example: dict[str, Any], tmp_path: Path) -> None:
    x = fluid.data("again", [None, 3])
    out = example["clipped_square_layer"](x, limit=2.0)
    executor = fluid.Executor(fluid.CPUPlace())
    fluid.io.save_inference_model(str(tmp_path), ["again"], [out], executor)
    program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), executor)
    (value,) = executor.run(program, {feeds[0]: np.ones((2, 3), "float32") * 9}, fetches)
    assert (value == 2.0).all()
