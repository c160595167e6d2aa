"""Shapes and types that operators infer are those in the programs that Fluid built."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import refluid.ops  # noqa: F401
from refluid import fluid
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ir.variable import Variable
from refluid.ops.registry import OperatorDef, find
from refluid.verify.recordings import load_recording
from tests.golden import GOLDEN, needs_golden

CASES = sorted((GOLDEN / "ops").glob("*/*.npz"))
# What Fluid writes into a program there is no fact about the operator.
DEVIATIONS = {
    "shape": "a shape that the backward pass asks for has no element type",
    "expand_as": "Fluid doesn't infer it",
    "affine_grid": "Fluid leaves constant sizes unknown",
    "grid_sampler": "follows from affine_grid's",
    "crop_tensor": "sizes by tensors are inferred in several ways",
    "isnan": "has_nan declares its result with the type of its input",
    "isinf": "has_inf declares its result with the type of its input",
    "square": "of a variable without shape",
    "assign": "of a variable without shape",
}


def _written_once(block: Block, definition: OperatorDef, op: Operator) -> Iterator[Variable]:
    """Described outputs that only `op` writes, from inputs of its own block.

    The description of other variables is what their last writer made it.
    """
    writers = Counter(name for one in block.ops for name in one.output_arg_names)
    if any(writers[name] > 1 or name not in block.vars for name in op.input_arg_names):
        return
    for slot in definition.outputs:
        for name in op.output(slot.name):
            var = block.find_var_recursive(name)
            once = writers[name] == 1 and name not in op.input_arg_names
            if slot.name != "XShape" and once and var is not None and var.has_description():
                yield var


@needs_golden
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_inferred_as_recorded(path: Path) -> None:
    for program in load_recording(path).programs.values():
        for block in program.blocks:
            for op in block.ops:
                definition = find(op.type)
                if definition is None or op.type in DEVIATIONS:
                    continue
                outputs = list(_written_once(block, definition, op))
                if not outputs:
                    continue
                expected = [(var.name, tuple(var.shape), var.dtype) for var in outputs]
                definition.infer(op)
                found = [(var.name, tuple(var.shape), var.dtype) for var in outputs]
                assert found == expected, op.type
                for var, (_, shape, dtype) in zip(outputs, expected, strict=True):
                    var.describe(shape=shape, dtype=dtype)


@pytest.mark.parametrize("rank", [4, 5, 6])
def test_any_number_of_unknown_sizes(rank: int) -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None] * rank, "float32")
        assert fluid.layers.relu(x).shape == (-1,) * rank
        assert fluid.layers.cumsum(x, 1).shape == (-1,) * rank
        assert fluid.layers.reduce_sum(x, [1]).shape == (-1,) * (rank - 1)
        assert fluid.layers.concat([x, x], 0).shape == (-1,) * rank


def test_pixels_of_images_of_unknown_size_attend_to_each_other() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        x = fluid.data("x", [None, 8, None, None], "float32")
        pixels = fluid.layers.reshape(x, [0, 8, -1])
        scores = fluid.layers.matmul(pixels, pixels, transpose_x=True)
        assert scores.shape == (-1, -1, -1)
