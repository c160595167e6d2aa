"""The table of knobs: none is missing, each has a measurement or a reason."""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.knob_cases import Case, Setting
from benchmarks.knob_networks import NETWORKS
from benchmarks.knobs import Effect, markdown, measure, measured_names
from refluid import fluid
from refluid.core.flag_table import FLAGS
from refluid.engine.knob_table import knobs
from refluid.engine.knobs import KnobScope
from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate
from tests.golden import GOLDEN, needs_golden

PAGE = Path(__file__).resolve().parents[2] / "docs" / "knobs.md"


@needs_golden
def test_no_knob_of_fluid_is_missing() -> None:
    surface = json.loads((GOLDEN / "api_surface.json").read_text())
    known = {knob.name for knob in knobs()}
    assert set(surface["flags"]) <= known
    assert {f"FLAGS_{name}" for name in surface["env_flags"]} <= known
    for strategy in ("BuildStrategy", "ExecutionStrategy"):
        assert set(surface["defaults"][strategy]) <= known, strategy
    assert {f"FLAGS_{name}" for name in FLAGS} <= known


def test_every_knob_is_measured_or_says_why_not() -> None:
    measured = measured_names()
    assert measured <= {knob.name for knob in knobs()}
    for knob in knobs():
        assert knob.does, knob.name
        assert (knob.name in measured) != bool(knob.ignored or knob.unmeasured), knob.name


def test_the_page_holds_every_knob() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert not [knob.name for knob in knobs() if f"| `{knob.name}` |" not in text]


def test_the_table_shows_ratios_and_reasons() -> None:
    text = markdown({"enable_inplace": Effect("sums", (0.5, 0.4, 0.6), 0.75)}, {"date": "today"})
    assert "| sums | 0.50 (0.40 to 0.60) | 0.75 |" in text
    assert "| the replicas are in one process |" in text and "Measured: date today." in text


def test_a_case_is_measured() -> None:
    case = Case("some", Setting(flags={"FLAGS_eager_delete_tensor_gb": -1.0}), "small")
    effect = measure(case, 1)
    assert effect.network == NETWORKS["small"].title and effect.agrees
    assert effect.peak is not None and effect.peak > 1
    assert effect.time[1] <= effect.time[0] <= effect.time[2]


@pytest.mark.parametrize(
    ("function", "scope"),
    [
        (fluid.io.DataLoader.from_generator, KnobScope.READER),
        (decorate, KnobScope.PRECISION),
        (AutoMixedPrecisionLists, KnobScope.PRECISION),
    ],
)
def test_arguments_are_knobs(function: Any, scope: KnobScope) -> None:
    known = {knob.name: knob.default for knob in knobs() if knob.scope is scope}
    for name, parameter in inspect.signature(function).parameters.items():
        assert name == "optimizer" or known[name] == parameter.default, name
