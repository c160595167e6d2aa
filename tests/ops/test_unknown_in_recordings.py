"""Recorded programs with some sizes unknown: what is declared then holds for those recorded."""

from __future__ import annotations

import contextlib
import zlib
from pathlib import Path
from random import Random

import pytest

import refluid.ops  # noqa: F401
from refluid.core.errors import EnforceNotMet
from refluid.ir.program import Program
from refluid.ops.registry import find
from refluid.ops.unknown import reckoned
from refluid.verify.recordings import load_recording
from tests.choices import often
from tests.golden import GOLDEN, needs_golden

CASES = sorted([*(GOLDEN / "ops").glob("*/auto.*.npz"), *(GOLDEN / "ops").glob("*/op.*.npz")])
# Inputs whose size nobody leaves open: parameters, and lists of sizes, which decide a rank.
_WHOLE = {"Scale.0", "Bias.0", "V.0", "U.0", "Weight.0", "weight", "var_shape", "var_shape_int32"}
# Fluid doesn't infer the shape of expand_as; how many indices there are decides gather_nd's rank.
_NOT_COMPARED = {"expand_as", "gather_nd"}
Shapes = dict[str, tuple[int, ...]]


@needs_golden
@pytest.mark.parametrize("path", CASES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_each_recorded_input_unknown_in_turn(path: Path) -> None:
    """Nothing is refused, and what is declared holds for the sizes that were recorded."""
    program, shapes, free = _recorded(path)
    known = _declare(program, shapes)
    for name in free:
        some = {name: (-1, *shapes[name][1:])}
        _require(_declare(program, shapes | some), known, some)


@needs_golden
@pytest.mark.parametrize(
    "path", often(CASES, CASES[1::4]), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_each_other_size_unknown_in_turn(path: Path) -> None:
    """Likewise of sizes that aren't those of rows, but for the inner ones of products."""
    program, shapes, free = _recorded(path)
    known = _declare(program, shapes)
    for name in free:
        sizes = shapes[name]
        for place in range(1, len(sizes)):
            some = {name: (*sizes[:place], -1, *sizes[place + 1 :])}
            try:
                _require(_declare(program, shapes | some), known, some)
            except EnforceNotMet as error:
                assert "operator mul " in str(error), some


@needs_golden
@pytest.mark.parametrize(
    "path", often(CASES, CASES[::2]), ids=lambda path: f"{path.parent.name}/{path.stem}"
)
def test_any_recorded_sizes_unknown(path: Path) -> None:
    """Sizes at random, one of each input: where that isn't refused, what is declared holds."""
    program, shapes, free = _recorded(path)
    known, random = _declare(program, shapes), Random(zlib.crc32(path.parent.name.encode()))
    for _ in range(3):
        some = {}
        for name in free:
            place = random.randrange(len(shapes[name]))
            if random.random() < 0.5:
                some[name] = (*shapes[name][:place], -1, *shapes[name][place + 1 :])
        with contextlib.suppress(EnforceNotMet):  # unknown ones that make known ones together
            _require(_declare(program, shapes | some), known, some)


def _recorded(path: Path) -> tuple[Program, Shapes, list[str]]:
    """A recorded program, the shapes it is fed, and the inputs whose sizes may be unknown."""
    recording = load_recording(path)
    (program, *_) = recording.programs.values()
    ops = program.global_block().ops
    if len(program.blocks) > 1 or not _NOT_COMPARED.isdisjoint(op.type for op in ops):
        pytest.skip("nothing is inferred")
    shapes = {name: one.array.shape for name, one in recording.steps[0].feeds.items()}
    fixed = _WHOLE | recording.state.keys()
    return program, shapes, [name for name in shapes if shapes[name] and name not in fixed]


def _require(found: Shapes, known: Shapes, unknown: Shapes) -> None:
    """That every size that is declared is the one of the whole program."""
    for result, sizes in found.items():
        actual = known[result]
        assert len(sizes) == len(actual), (result, sizes, actual, unknown)
        pairs = zip(sizes, actual, strict=True)
        assert all(size < 0 or real < 0 or size == real for size, real in pairs), (
            f"{result} is declared {sizes}, else {actual}, where {unknown}"
        )


def _declare(program: Program, shapes: Shapes) -> Shapes:
    """What operators say of their results, of inputs of these shapes."""
    own = Program.parse_from_string(program.serialize_to_string())
    block = own.global_block()
    for name, shape in shapes.items():
        block.vars[name].describe(shape=shape, dtype=None)
    results = [name for op in block.ops for name in op.output_arg_names if name not in shapes]
    for op in block.ops:
        definition = find(op.type)
        if definition is not None:
            definition.infer(op)
    described = (name for name in results if name in block.vars)
    return {n: tuple(block.vars[n].shape) for n in described if block.vars[n].has_description()}


def test_what_is_computed_of_an_unknown_size_is_unknown() -> None:
    unknown, known = reckoned((-1, 3))
    found = (
        unknown + 2,
        2 - unknown,
        unknown * known,
        7 // unknown,
        unknown // 2,
        sum((known, unknown)),
    )
    assert set(found) == {-1}
    assert known + 2 == 5
