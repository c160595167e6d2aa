"""Learning-rate schedules append the operators that Fluid appended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid.core import names
from refluid.fluid import layers
from refluid.ir.attributes import AttrType, OpRole
from refluid.ir.defaults import default_main_program, program_guard
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from tests.fluid import recorded_training as recording
from tests.golden import GOLDEN, needs_golden

# The calls of the documentation's examples.
EXAMPLES: dict[str, Callable[[], Any]] = {
    "cosine_decay-0": lambda: layers.cosine_decay(0.1, 10000, 120),
    "exponential_decay-0": lambda: layers.exponential_decay(0.1, 10000, 0.5, staircase=True),
    "inverse_time_decay-0": lambda: layers.inverse_time_decay(0.1, 10000, 0.5, staircase=True),
    "noam_decay-1": lambda: layers.noam_decay(1 / (100 * 0.01**2), 100, learning_rate=0.01),
    "polynomial_decay-0": lambda: layers.polynomial_decay(0.01, 5000, 0.0, power=1),
    "linear_lr_warmup-0": lambda: layers.linear_lr_warmup(
        layers.piecewise_decay([100, 200], [0.1, 0.01, 0.001]), 50, 1.0 / 3, 0.1
    ),
}


def _constants(ops: Sequence[Operator]) -> list[float]:
    return [float(op.attrs["str_value"]) for op in ops if op.type == "fill_constant"]


def _scales(ops: Sequence[Operator]) -> list[float]:
    return [op.attrs["scale"] for op in ops if op.type == "scale"]


def _piecewise(ops: Sequence[Operator]) -> Any:
    numbers = _constants(ops)
    boundaries = [int(number) for number in numbers[:-1:2]]
    return layers.piecewise_decay(boundaries, [*numbers[1:-1:2], numbers[-1]])


def _cosine(ops: Sequence[Operator]) -> Any:
    step, _, epoch, _, rate = _scales(ops)
    return layers.cosine_decay(rate * 2, round(1 / step), round(1 / epoch))


def _exponential(ops: Sequence[Operator]) -> Any:
    step, rate = _scales(ops)
    decay = next(op.attrs["value"] for op in ops if op.type == "fill_constant")
    staircase = any(op.type == "floor" for op in ops)
    return layers.exponential_decay(rate, round(1 / step), decay, staircase)


def _polynomial(ops: Sequence[Operator]) -> Any:
    end = [op.attrs["bias"] for op in ops if op.type == "scale"][-1]
    power = [op.attrs["value"] for op in ops if op.type == "fill_constant"][-1]
    rate = _scales(ops)[-2] + end
    return layers.polynomial_decay(rate, int(_constants(ops[:4])[0]), end, power)


def _noam(ops: Sequence[Operator]) -> Any:
    warmup, rate, *later = _scales(ops)
    with default_main_program().lr_schedule_guard():
        return layers.noam_decay(round(rate**-2), round(warmup ** (-2 / 3))) * later[0]


# How the schedule of a model is told from its operators' attributes.
MODELS: dict[str, Callable[[Sequence[Operator]], Any]] = {
    "resnet50": _piecewise,
    "mobilenet_v1": _piecewise,
    "alexnet": _piecewise,
    "video_tsm": _piecewise,
    "vgg11": _cosine,
    "googlenet": _cosine,
    "deeplabv3p": _polynomial,
    "resnet50_nhwc": _polynomial,
    "word2vec": _exponential,
    "sr_gnn": _exponential,
    "dam_py_reader": _exponential,
    "transformer": _noam,
}


def scheduled(program: Program) -> list[Operator]:
    """The operators of the schedule, those of sub-blocks last."""
    return [
        op
        for block in program.blocks
        for op in block.ops
        if int(op.attrs.get("op_role", 0)) == OpRole.LR_SCHED
    ]


def plain(op: Operator) -> dict[str, Any]:
    """Facts of an operator, with blocks as their numbers."""
    facts = recording.facts(op)
    for name, kind in op.attr_types.items():
        if kind == AttrType.BLOCK:
            facts["attrs"][name] = op.attrs[name].idx
    return facts


def assert_same(built: Program, recorded: Program) -> None:
    wanted = [plain(op) for op in scheduled(recorded)]
    made = [plain(op) for op in scheduled(built)]
    for one, other in zip(made, wanted, strict=False):
        assert one == other
    assert len(made) == len(wanted)


@needs_golden
@pytest.mark.parametrize("example", EXAMPLES)
def test_examples(example: str) -> None:
    path = GOLDEN / "build" / f"paddle.fluid.layers.{example}.npz"
    with np.load(path, allow_pickle=False) as record:
        recorded = Program.parse_from_string(record["program.main"].tobytes())
        begun = Program.parse_from_string(record["program.startup"].tobytes())
    main, startup = Program(), Program()
    with names.guard(), program_guard(main, startup):
        EXAMPLES[example]()
    assert_same(main, recorded)
    made = [plain(op) for op in startup.global_block().ops]
    every = [plain(op) for op in begun.global_block().ops]
    assert made == [one for one in every if one in made]


@needs_golden
@pytest.mark.parametrize("model", MODELS)
def test_models(model: str) -> None:
    path: Path = recording.training_programs(GOLDEN / "zoo" / model)[0]
    recorded = recording.read_program(path)
    ops = scheduled(recorded)
    known = {name for op in recorded.global_block().ops for name in op.output_arg_names}
    known -= {name for op in ops for name in op.output_arg_names}
    main = Program()
    with names.guard(), program_guard(main, Program()):
        recording.count_names_from(ops, known)
        MODELS[model](ops)
    assert_same(main, recorded)
