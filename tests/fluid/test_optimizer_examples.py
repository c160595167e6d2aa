"""The documentation's examples of optimizers leave the programs that they left in Fluid."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.ir.program import Program
from refluid.ir.variable import Variable
from tests.fluid.examples.optimizers import EXAMPLES
from tests.fluid.recorded_training import var_facts
from tests.fluid.test_structure import build, operators
from tests.golden import GOLDEN, needs_golden

# Rows of a variable without shape: Fluid says 0 of them.
_UNKNOWN = "merge_selected_rows_0.tmp_0", "shape"


def _recorded(example: str) -> tuple[Program, Program | None]:
    """The recorded main and startup program."""
    with np.load(GOLDEN / "build" / f"paddle.fluid.{example}.npz", allow_pickle=False) as file:
        programs = {
            key: Program.parse_from_string(file[key].tobytes())
            for key in file.files
            if key.startswith("program.")
        }
    startup = [name for name in programs if "startup" in name]
    (main,) = set(programs) - set(startup)
    return programs[main], programs[startup[0]] if startup else None


def _facts(var: Variable) -> dict[str, Any]:
    return {key: fact for key, fact in var_facts(var).items() if (var.name, key) != _UNKNOWN}


@needs_golden
@pytest.mark.parametrize("example", EXAMPLES)
def test_example_is_fluids(example: str) -> None:
    main, startup = build(EXAMPLES[example])
    recorded_main, recorded_startup = _recorded(example)
    for program, recorded in ((main, recorded_main), (startup, recorded_startup)):
        if recorded is None:
            assert not program.global_block().ops
            continue
        assert operators(program) == operators(recorded)
        for block, wanted in zip(program.blocks, recorded.blocks, strict=True):
            assert set(block.vars) == set(wanted.vars)
            for var in block.vars.values():
                assert _facts(var) == _facts(wanted.vars[var.name])
