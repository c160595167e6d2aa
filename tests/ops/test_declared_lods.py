"""LoD levels that operators and gradients declare, against those of all recorded programs."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import facts_of, find
from tests.golden import GOLDEN, needs_golden

# Loops, and what is read from an array, of which the program doesn't say whose LoD it is.
_LEFT_OUT = frozenset({"read_from_array", "recurrent_grad", "while_grad"})


def _programs() -> Iterator[Program]:
    """Those in which something has a LoD."""
    for path in sorted(GOLDEN.glob("zoo/*/*.pb*")):
        data = path.read_bytes()
        yield _parsed(gzip.decompress(data) if path.suffix == ".gz" else data)
    for path in sorted([*GOLDEN.glob("ops/*/*.npz"), *GOLDEN.glob("faults/*/*/*.npz")]):
        yield _parsed(_program_of(path))


def _program_of(path: Path) -> bytes:
    with np.load(path) as archive:
        found: bytes = archive["program"].tobytes()
    return found


def _parsed(data: bytes) -> Program:
    return Program.parse_from_string(data)


def _levels(op: Operator, names: list[str]) -> list[int | None]:
    found = [op.block.find_var_recursive(name) for name in names]
    return [one.lod_level if one is not None and one.has_description() else None for one in found]


def _gradients(op: Operator) -> Iterator[tuple[str, int | None, int | None]]:
    """Name, level recorded and level that the rule says of each gradient that an operator makes."""
    kind = facts_of(op.type).gradient_lod
    given = [name for slot, names in op.inputs.items() if slot.endswith(GRAD) for name in names]
    known = [level for level in _levels(op, given) if level is not None]
    for slot, names in op.outputs.items():
        if slot.endswith(GRAD) and kind == "variable":
            bases = op.input(slot.removesuffix(GRAD)) or [name.split(GRAD)[0] for name in names]
            yield from zip(names, _levels(op, names), _levels(op, bases), strict=False)
        elif slot.endswith(GRAD):
            level = max(known, default=0) if kind == "given" else 0
            yield from (
                (name, recorded, level)
                for name, recorded in zip(names, _levels(op, names), strict=True)
            )


@needs_golden
@pytest.mark.slow
def test_levels_of_recorded_gradients_follow_from_the_rule() -> None:
    wrong, right = [], 0
    for program in _programs():
        for op in (op for block in program.blocks for op in block.ops):
            if not op.type.endswith(("_grad", "_grad2")) or op.type in _LEFT_OUT:
                continue
            for name, recorded, wanted in _gradients(op):
                if recorded is not None and wanted is not None:
                    right += 1
                    wrong += [f"{op.type} {name}: {wanted}"] if recorded != wanted else []
    assert not wrong
    assert right > 1000


@needs_golden
@pytest.mark.slow
def test_levels_of_recorded_results_are_declared_again() -> None:
    wrong, right = [], 0
    for program in _programs():
        for op in (op for block in program.blocks for op in block.ops):
            definition, names = find(op.type), op.output_arg_names
            if definition is None or op.type.endswith("_grad") or op.type in _LEFT_OUT:
                continue
            recorded = _levels(op, names)
            if None in recorded or not any(_levels(op, op.input_arg_names)):
                continue
            definition.infer(op)
            for name, before, now in zip(names, recorded, _levels(op, names), strict=True):
                right += 1
                wrong += [f"{op.type} {name}: {now}, Fluid {before}"] if before != now else []
                op.block.var_recursive(name).lod_level = before or 0
    assert not wrong
    assert right > 1000
