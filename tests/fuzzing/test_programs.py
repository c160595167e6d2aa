"""Random programs give the same in every tier, by every strategy, on one place and on several."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from refluid.runtime.recorded import compile as compiling
from refluid.runtime.recorded import fitting, spelling, text
from tests.choices import often
from tests.fuzzing.fuzzer import Tally, fuzz, judged, shrunk
from tests.fuzzing.programs import KINDS, build, draw_spec
from tests.fuzzing.table import rows

ROOT = Path(__file__).resolve().parents[2]
# The long run ends at so many programs or seconds, whichever comes first.
PROGRAMS, SECONDS, VARIABLE = 10_000, 3600, "REFLUID_FUZZ_SECONDS"


def _texts(tally: Tally) -> str:
    return "\n".join(one.text for one in tally.findings)


@pytest.mark.parametrize("first", often(range(20, 60, 10), [20, 30]))
def test_some_programs(first: int) -> None:
    tally = fuzz(iter(range(first, first + 10)), tell=lambda text: None)
    assert tally.programs == 10
    assert not tally.findings, _texts(tally)


@pytest.mark.slow
@pytest.mark.parametrize("more", [[], ["--compiled"]], ids=["all ways", "compiled"])
def test_many_programs(more: list[str]) -> None:
    """In a process of its own, since a wrong kernel may end it: the last line names the seed."""
    seconds = os.environ.get(VARIABLE, str(SECONDS))
    command = [sys.executable, "-m", "tests.fuzzing", "--seconds", seconds, "--shrink", *more]
    run = subprocess.run(
        [*command, "--programs", str(PROGRAMS)], cwd=ROOT, capture_output=True, text=True
    )
    print(run.stdout)
    assert run.returncode == 0, run.stdout + run.stderr[-5000:]


def test_the_same_seed_is_the_same_program() -> None:
    for seed in range(200, 210):
        one, other = (build(draw_spec(seed)) for _ in range(2))
        assert draw_spec(seed) == draw_spec(seed)
        assert one.fetches == other.fetches
        described = [
            [(op.type, op.inputs, op.outputs) for op in made.main.global_block().ops]
            for made in (one, other)
        ]
        assert described[0] == described[1]


def test_every_layer_and_kind_is_drawn() -> None:
    drawn = [draw_spec(seed) for seed in range(500)]
    assert {spec.kind.name for spec in drawn} == KINDS.keys()
    assert {name for spec in drawn for name, _ in spec.layers} == rows().keys()


# -- faults that must be found ----------------------------------------------------------------


def _another_number(patch: pytest.MonkeyPatch) -> None:
    """Numbers in recorded calls are 1% larger."""
    former = spelling.Spelling._leaf

    def wrong(self: Any, one: Any) -> Any:
        return former(self, one * 1.01 if isinstance(one, float) else one)

    patch.setattr(spelling.Spelling, "_leaf", wrong)


def _another_size(patch: pytest.MonkeyPatch) -> None:
    """A recorded step serves feeds of any size."""
    patch.setattr(fitting.Recorded, "_fits_feeds", lambda self, feeds: True)


def _no_update(patch: pytest.MonkeyPatch) -> None:
    """Recorded kernels that add in place are left out."""
    former = text.Text._kernel

    def wrong(self: Any, kernel: Any) -> None:
        if not (kernel.writes and "add_" in str(kernel.func)):
            former(self, kernel)

    patch.setattr(text.Text, "_kernel", wrong)


def _compiled_otherwise(patch: pytest.MonkeyPatch) -> None:
    """Compiled functions, which here are their graphs, give the first result 1% larger."""

    def wrong(module: GraphModule, examples: Any, results: Any = ()) -> Callable[..., Any]:
        def run(*given: torch.Tensor) -> Any:
            first, *others = module(*given)
            return first.mul_(1.01) if first.is_floating_point() else first, *others

        return run

    patch.setattr(compiling, "proven", lambda module, function, written: function)
    patch.setattr(compiling, "compile_steps", partial(compiling.compile_steps, compiler=wrong))


PLANTED: list[Callable[[pytest.MonkeyPatch], None]] = [
    _another_number,
    _another_size,
    _no_update,
]


def test_a_finding_is_made_smaller_and_can_be_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    _another_number(monkeypatch)
    seeds = (draw_spec(seed) for seed in range(60))
    finding = next(one for spec in seeds for one in judged(spec))
    small = shrunk(finding, patience=8)
    assert len(small.spec.steps) < len(finding.spec.steps)
    assert f"--seed {finding.spec.seed} --programs 1" in small.text


@pytest.mark.parametrize("plant", [*PLANTED, _compiled_otherwise])
def test_a_planted_fault_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    for seed in itertools.count():
        assert seed < 60, "not found"
        if any(judged(draw_spec(seed), compiled=plant is _compiled_otherwise)):
            break
