"""Scenarios give what they gave in Paddle 2.6.2."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle
from refluid.fluid.dygraph.base import disable_dygraph
from tests.paddle.two.networks import fresh
from tests.paddle.two.scenarios.metrics import RANDOM

FOLDER = Path(__file__).parent
# Where more than 1e-5 of the largest number differs, and why.
LOOSER: dict[str, tuple[float, str]] = {
    f"metrics/spread_{name}": (0.02, "moments of 18,432 random numbers, drawn by another generator")
    for name in RANDOM
} | {
    "layers/alpha_dropout": (0.01, "moments of 200,000 random numbers"),
    "every_layer/Transformer(6, 2, 1, 2, 8, dropout=0.0)": (1e-3, "gradients that nearly cancel"),
}
# Pixels that lie on the very edge of the image they are taken from. Which side they fall on hung on
# the rounding of the machine that recorded them; here the equations are solved exactly.
ON_EDGE = {f"images/{name}/pillow": 2 for name in ("perspective", "perspective_smooth")}
ON_EDGE["images/random_perspective/pillow"] = 2

# Of networks that take seconds, others like them are fast.
SLOW = {f"models/{one}" for one in ("alexnet", "densenet161", "inception_v3", "vgg11")}


def _recorded() -> Iterator[Any]:
    for path in sorted((FOLDER / "scenarios").glob("[a-z]*.py")):
        found = np.load(FOLDER / "recorded" / f"{path.stem}.npz")
        values: dict[str, dict[str, Any]] = {}
        for key in found.files:
            name, _, part = key.rpartition("|")
            values.setdefault(name, {})[part] = found[key]
        module: Any = importlib.import_module(f"tests.paddle.two.scenarios.{path.stem}")
        needs = getattr(module, "NEEDS", {})
        for name, wanted in values.items():
            lacks = name in needs and importlib.util.find_spec(needs[name]) is None
            marks = [pytest.mark.skip(f"{needs[name]} is not installed")] if lacks else []
            full = f"{path.stem}/{name}"
            marks += [pytest.mark.slow] if full in SLOW else []
            yield pytest.param(full, module.SCENARIOS[name], wanted, id=full, marks=marks)


@pytest.mark.parametrize(("name", "scenario", "wanted"), [*_recorded()])
def test_scenario(name: str, scenario: Any, wanted: dict[str, Any]) -> None:
    try:
        with fresh():
            found = scenario(refluid.paddle)
    finally:
        disable_dygraph()
    assert found.keys() == wanted.keys()
    bound = LOOSER.get(name, (1e-5, ""))[0]
    for part, expected in wanted.items():
        value = np.asarray(found[part])
        assert value.shape == (expected.shape or (1,)), part
        assert value.dtype.kind == expected.dtype.kind, part
        if expected.dtype.kind not in "fc":
            differs = value != expected.reshape(value.shape)
            if name in ON_EDGE:
                assert differs.any(-1).sum() <= ON_EDGE[name], part
            else:
                assert not differs.any(), part
            continue
        largest = float(np.abs(expected).max(initial=0.0))
        np.testing.assert_allclose(
            value, expected, rtol=bound, atol=bound * largest, err_msg=f"{name} {part}"
        )
