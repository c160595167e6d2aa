"""Each layer appends the operators, and creates the variables, that Fluid's did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core.errors import OperatorNotImplemented
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from tests.fluid.layer_examples import EXAMPLES
from tests.fluid.recorded_training import facts, var_facts
from tests.fluid.test_structure import build
from tests.golden import GOLDEN, needs_golden

# Variables of which refluid knows more before they are computed than Fluid did.
_BETTER_KNOWN = {
    "expand_as_0.tmp_0": "shape",
    "isinf_0.tmp_0": "dtype",
    "isnan_0.tmp_0": "dtype",
}


def _recorded(example: str) -> dict[str, Program]:
    with np.load(GOLDEN / "build" / f"paddle.fluid.{example}.npz", allow_pickle=False) as file:
        return {
            key.removeprefix("program."): Program.parse_from_string(file[key].tobytes())
            for key in file.files
            if key.startswith("program.")
        }


def _facts(program: Program) -> list[dict[str, Any]]:
    found = [facts(op) for block in program.blocks for op in block.ops]
    for one in found:
        if "sub_block" in one["attrs"]:
            one["attrs"]["sub_block"] = one["attrs"]["sub_block"].idx
    return found


def _var_facts(var: Variable) -> dict[str, Any]:
    return var_facts(var) | {_BETTER_KNOWN.get(var.name, ""): None}


@needs_golden
@pytest.mark.parametrize("example", EXAMPLES)
def test_layer_is_fluids(example: str) -> None:
    recorded = _recorded(example)
    try:
        main, startup = build(EXAMPLES[example])
    except OperatorNotImplemented as error:
        pytest.skip(str(error).splitlines()[0])
    for name, program in (("main", main), ("startup", startup)):
        if name not in recorded:
            assert not program.global_block().ops
            continue
        assert _facts(program) == _facts(recorded[name])
        for block, wanted in zip(program.blocks, recorded[name].blocks, strict=True):
            assert set(block.vars) == set(wanted.vars)
            for var in block.vars.values():
                assert _var_facts(var) == _var_facts(wanted.vars[var.name])
