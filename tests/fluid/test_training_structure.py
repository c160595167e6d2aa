"""Optimizers append to recorded forward and backward passes what Fluid appended."""

from __future__ import annotations

from pathlib import Path

import pytest

import refluid.ops  # noqa: F401
from refluid.core import names
from refluid.ir import schema
from refluid.ir.defaults import program_guard
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from tests.fluid import recorded_training as recording
from tests.golden import GOLDEN, needs_golden, quick_ones

PROGRAMS = [
    main
    for model in sorted((GOLDEN / "zoo").glob("*"))
    for main in recording.training_programs(model)
]


@needs_golden
@pytest.mark.parametrize(
    "path", quick_ones(PROGRAMS), ids=lambda path: f"{path.parent.name}/{path.name}"
)
def test_optimizer_operators_are_fluids(path: Path) -> None:
    main, startup = recording.read_program(path), recording.startup_of(path)
    recorded = recording.split(main)
    if recorded is None:
        return
    kind = recorded.updates[0].type
    if kind not in recording.OPTIMIZERS:
        pytest.skip(f"refluid has no optimizer {kind}")
    missing = {op.type for op in recorded.appended} - set(schema.known())
    if missing:
        pytest.skip(f"refluid has no operator {', '.join(sorted(missing))}")
    wanted = [recording.facts(op) for op in recorded.appended]
    wanted_vars = {name: recording.var_facts(var) for name, var in recorded.block.vars.items()}
    recording.count_scopes_from(recorded.updates[0])
    fresh = Program()
    with names.guard():
        made, pairs = recording.rebuild(recorded, startup, main)
        before = set(recorded.block.vars)
        Editor(recorded.block).assign(recorded.block.ops[: recorded.first])
        with program_guard(main, fresh):
            made.apply_gradients(list(reversed(pairs)))
    ops = recorded.block.ops[recorded.first :]
    for op, facts in zip(ops, wanted, strict=False):
        assert recording.facts(op) == facts
    assert [op.type for op in ops] == [facts["type"] for facts in wanted]
    for name in set(recorded.block.vars) - before:
        assert recording.var_facts(recorded.block.vars[name]) == wanted_vars[name]
    begun = [recording.facts(op) for op in fresh.global_block().ops]
    ends = {op.output("Out")[0]: recording.facts(op) for op in startup.global_block().ops}
    assert begun == [ends[one["outputs"]["Out"][0]] for one in begun]
    order = list(ends)
    places = [order.index(one["outputs"]["Out"][0]) for one in begun]
    assert places == sorted(places)
