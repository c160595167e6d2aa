"""Each layer appends the operators, and creates the variables, that Fluid's did."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core.errors import OperatorNotImplemented
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from tests.fluid.examples import (
    algebra,
    arithmetic,
    clicks,
    control,
    detection,
    distributions,
    networks,
    readers,
    recurrent,
    regions,
    sequences,
    tensors,
    vision,
)
from tests.fluid.recorded_training import var_facts
from tests.fluid.test_structure import build, operators
from tests.golden import GOLDEN, needs_golden

EXAMPLES = (
    arithmetic.EXAMPLES
    | algebra.EXAMPLES
    | clicks.EXAMPLES
    | distributions.EXAMPLES
    | vision.EXAMPLES
    | tensors.EXAMPLES
    | networks.EXAMPLES
    | sequences.EXAMPLES
    | detection.EXAMPLES
    | control.EXAMPLES
    | recurrent.EXAMPLES
    | regions.EXAMPLES
    | readers.EXAMPLES
)
# Variables of which refluid knows more before they are computed than Fluid did.
_BETTER_KNOWN = {
    "_generated_var_13": "dtype",
    "_generated_var_4": "dtype",
    "affine_grid_0.tmp_0": "shape",
    "expand_as_0.tmp_0": "shape",
    "isinf_0.tmp_0": "dtype",
    "isnan_0.tmp_0": "dtype",
}


# Programs that an example wrote to under another name.
_NAMED = {"ns.main_program": "main"}
_WRITTEN = {"layers.case-0": {"startup": "main"}}


def _recorded(example: str) -> dict[str, Program]:
    written = _NAMED | _WRITTEN.get(example, {})
    with np.load(GOLDEN / "build" / f"paddle.fluid.{example}.npz", allow_pickle=False) as file:
        names = {key: key.removeprefix("program.") for key in file.files}
        return {
            written.get(names[key], names[key]): Program.parse_from_string(file[key].tobytes())
            for key in file.files
            if key.startswith("program.")
        }


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
        assert operators(program) == operators(recorded[name])
        for block, wanted in zip(program.blocks, recorded[name].blocks, strict=True):
            assert set(block.vars) == set(wanted.vars)
            for var in block.vars.values():
                assert _var_facts(var) == _var_facts(wanted.vars[var.name])
