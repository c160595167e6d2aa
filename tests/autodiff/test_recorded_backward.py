"""append_backward and gradients append what Fluid 1.8.5 appended, operator by operator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from refluid.autodiff import append_backward, gradients
from refluid.core.errors import OperatorNotImplemented
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from tests.autodiff.recorded import Recorded, read_program, recorded_runs, take_apart, zoo_programs
from tests.golden import needs_golden, quick_ones

pytestmark = needs_golden

GAN_GENERATORS = {"cgan/main_g.pb", "dcgan/main_g.pb"}


def _id(path: Path) -> str:
    return "/".join(path.parts[-2:])


def _facts(op: Operator) -> tuple[Any, ...]:
    attrs = {
        name: (op.attr_types[name], value.idx if isinstance(value, Block) else value)
        for name, value in op.attrs.items()
    }
    return op.type, op.inputs, op.outputs, attrs


def _run(recorded: Recorded, number: int = 0) -> list[Operator]:
    """Appends one backward pass as Fluid was asked to."""
    before = len(recorded.block.ops)
    target, stopped = recorded.target(number), recorded.stopped(number)
    if recorded.passes[number][0].type == "shape":
        gradients(target, recorded.sources(), None, stopped)
    else:
        append_backward(target, recorded.parameters(number), stopped)
    return recorded.block.ops[before:]


def _compare(made: list[Operator], wanted: list[Operator]) -> None:
    for position, (one, other) in enumerate(zip(made, wanted, strict=False)):
        assert _facts(one) == _facts(other), f"operator {position} of the backward pass"
    assert len(made) == len(wanted)


def _compare_blocks(recorded: Recorded) -> None:
    made = [block for block in recorded.program.blocks if block.forward_block_idx]
    for block, wanted in zip(made, recorded.gradient_blocks, strict=True):
        assert (block.idx, block.parent_idx, block.forward_block_idx) == (
            wanted.idx,
            wanted.parent_idx,
            wanted.forward_block_idx,
        )
        _compare(block.ops, wanted.ops)
        assert set(block.vars) == set(wanted.vars)
        for name, var in block.vars.items():
            other = wanted.vars[name]
            assert (var.type, var.shape, var.dtype) == (other.type, other.shape, other.dtype), name


@pytest.mark.parametrize("path", quick_ones(zoo_programs()), ids=_id)
def test_models_get_the_recorded_backward_pass(path: Path) -> None:
    recorded = take_apart(read_program(path))
    if _id(path) in GAN_GENERATORS or recorded.recomputed:
        pytest.skip("recorded without a backward pass, or with recomputation")
    for number, wanted in enumerate(recorded.passes):
        _compare(_run(recorded, number), wanted)
    _compare_blocks(recorded)


def test_other_networks_get_the_recorded_gradients() -> None:
    compared, without = 0, []
    for path in recorded_runs():
        recorded = take_apart(read_program(path))
        if not recorded.passes or recorded.recomputed:
            continue
        try:
            for number, wanted in enumerate(recorded.passes):
                _compare(_run(recorded, number), wanted)
                compared += 1
            _compare_blocks(recorded)
        except OperatorNotImplemented:
            without.append(_id(path))
        except AssertionError as error:
            raise AssertionError(f"{_id(path)}: {error}") from error
    assert compared >= 350
    assert len(without) < 10, without
