"""The table of knobs: none is missing, each has a measurement or a reason."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest

from benchmarks.knob_cases import Case, Setting
from benchmarks.knob_networks import NETWORKS
from benchmarks.knobs import measure, measured_names
from refluid import fluid
from refluid.core.flag_table import FLAGS
from refluid.engine.knob_effects import measured
from refluid.engine.knob_table import knobs
from refluid.engine.knobs import KnobScope, MeasuredEffect
from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate
from scripts.knob_page import cells_of, markdown
from tests.golden import GOLDEN, needs_golden


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
    effects, _ = measured()
    assert measured_names() == effects.keys() <= {knob.name for knob in knobs()}
    for knob in knobs():
        assert knob.does, knob.name
        assert bool(knob.measured) != bool(knob.ignored or knob.unmeasured), knob.name


def test_what_was_measured_can_be() -> None:
    for knob in knobs():
        if (effect := knob.measured) is not None:
            assert effect.network and 0 < effect.low <= effect.time <= effect.high, knob.name
            assert effect.peak is None or effect.peak > 0, knob.name


def test_the_table_shows_ratios_and_reasons() -> None:
    effect = MeasuredEffect("sums", 0.5, 0.4, 0.6, 0.75)
    assert cells_of(effect) == ("sums", "0.50 (0.40 to 0.60)", "0.75")
    assert cells_of(MeasuredEffect("sums", 0.9, 0.8, 1.1))[1:] == (
        "0.90 (0.80 to 1.10), neutral",
        "",
    )
    text = markdown(knobs(), {"date": "today"})
    assert "| plans have no locks |" in text and "Measured: date today." in text


def test_a_case_is_measured() -> None:
    case = Case("some", Setting(flags={"FLAGS_eager_delete_tensor_gb": -1.0}), "small")
    found = measure(case, 1)
    effect = found.effect
    assert effect.network == NETWORKS["small"].title and found.agrees
    assert effect.peak is not None and effect.peak > 1
    assert effect.low <= effect.time <= effect.high


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
