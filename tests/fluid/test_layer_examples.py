"""Each layer appends the operators, and creates the variables, that Fluid's did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.ir.program import Program
from tests.fluid.layer_examples import EXAMPLES
from tests.fluid.recorded_training import facts, var_facts
from tests.fluid.test_structure import build
from tests.golden import GOLDEN, needs_golden

# Shapes that the C++ of Fluid wrote down otherwise, without an effect.
_SHAPES = {"cross_entropy2_0.tmp_1"}


def _recorded(example: str) -> dict[str, Program]:
    with np.load(GOLDEN / "build" / f"paddle.fluid.{example}.npz", allow_pickle=False) as file:
        return {
            key.removeprefix("program."): Program.parse_from_string(file[key].tobytes())
            for key in file.files
            if key.startswith("program.")
        }


def _facts(program: Program) -> list[dict[str, Any]]:
    return [facts(op) for block in program.blocks for op in block.ops]


@needs_golden
@pytest.mark.parametrize("example", EXAMPLES)
def test_layer_is_fluids(example: str) -> None:
    recorded = _recorded(example)
    main, startup = build(EXAMPLES[example])
    for name, program in (("main", main), ("startup", startup)):
        if name not in recorded:
            assert not program.global_block().ops
            continue
        assert _facts(program) == _facts(recorded[name])
        for block, wanted in zip(program.blocks, recorded[name].blocks, strict=True):
            assert set(block.vars) == set(wanted.vars)
            for var in block.vars.values():
                assert var_facts(var) == var_facts(wanted.vars[var.name])
