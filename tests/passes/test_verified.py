"""A pass that leaves an unsound program is named."""

from __future__ import annotations

from dataclasses import replace

import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.engine.pipeline import BY_NAME, PipelinePass, build, run_passes
from refluid.engine.setting import Setting
from refluid.ir.program import Program
from refluid.passes.protocol import Options, Report


def _forget_a_maker(program: Program, options: Options) -> Report:
    program.global_block()._remove_op(0)
    return Report(changed=True)


BROKEN: PipelinePass[Options] = replace(
    BY_NAME["half_on_cpu"], name="broken", rewrite=_forget_a_maker
)
BROKEN = replace(BROKEN, useful=lambda program, options: True)


def program() -> Program:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        fluid.layers.scale(fluid.layers.relu(fluid.data("x", [2])), 2.0)
    return main


def test_the_pass_is_named() -> None:
    with pytest.raises(EnforceNotMet, match="the pass broken leaves an unsound program: scale: "):
        run_passes(program(), [BROKEN])


def test_only_where_the_flag_is_set() -> None:
    with flags.override({"FLAGS_refluid_verify_passes": False}):
        assert len(run_passes(program(), [BROKEN]).program.global_block().ops) == 1


def test_what_was_unsound_before_is_not_blamed_on_a_pass() -> None:
    unsound = program()
    unsound.global_block()._remove_op(0)
    kept = replace(BROKEN, rewrite=lambda program, options: Report())
    assert run_passes(unsound, [kept]).program is unsound


def test_passes_of_building_are_verified(monkeypatch: pytest.MonkeyPatch) -> None:
    from refluid.engine import pipeline

    monkeypatch.setattr(pipeline, "BUILDING", (BROKEN,))
    with pytest.raises(EnforceNotMet, match="broken"):
        build(program(), Setting())
