"""Public functions and classes take Fluid's parameters, by name, order and default."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.golden import GOLDEN, needs_golden

MODULES = [
    "average",
    "contrib.layers",
    "contrib.memory_usage_calc",
    "contrib.mixed_precision.decorator",
    "contrib.mixed_precision.fp16_lists",
    "contrib.mixed_precision.fp16_utils",
    "contrib.op_frequence",
    "contrib.reader",
    "data",
    "data_feeder",
    "dataloader",
    "evaluator",
    "framework",
    "initializer",
    "input",
    "io",
    "layer_helper",
    "layers",
    "layers.distributions",
    "metrics",
    "nets",
    "param_attr",
    "reader",
    "unique_name",
]
# Fluid's own plumbing, which in refluid is made otherwise.
_OWN = {
    "Block.__init__",
    "Operator.__init__",
    "Parameter.__init__",
    "Variable.__init__",
    "UniqueNameGenerator.__init__",
}


def _surface() -> Any:
    return json.loads((GOLDEN / "api_surface.json").read_text())


def _cases() -> Iterator[Any]:
    if not GOLDEN.is_dir():
        return
    surface = _surface()
    for module in MODULES:
        ours = importlib.import_module(f"refluid.fluid.{module}")
        for name, target in surface["modules"][f"paddle.fluid.{module}"]["names"].items():
            facts = surface["objects"].get(target) if isinstance(target, str) else None
            if facts is None or name.startswith("_") or not target.startswith("paddle.fluid"):
                continue
            if name in vars(ours):
                yield pytest.param(vars(ours)[name], facts, id=f"{module}.{name}")


def _wanted(facts: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    names = ast.literal_eval(re.search(r"args=(\[[^]]*\])", facts["argspec"])[1])  # type: ignore[index]
    return names, facts["defaults"]


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value if value is None or type(value) in (bool, int, float, str) else str(value)


def _found(function: Any, wanted: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """Names of the parameters, and the defaults of those that have one in Fluid too."""
    parameters = inspect.signature(function).parameters
    empty = inspect.Parameter.empty
    named = {
        name: one.default
        for name, one in parameters.items()
        if one.kind not in (one.VAR_KEYWORD, one.VAR_POSITIONAL)
    }
    given = {name: value for name, value in named.items() if value is not empty}
    defaults = {name: _plain(value) for name, value in given.items() if name in wanted}
    return list(named), defaults


@needs_golden
@pytest.mark.parametrize(("ours", "facts"), list(_cases()))
def test_signature_is_fluids(ours: Any, facts: dict[str, Any]) -> None:
    if facts["kind"] == "function":
        assert _found(ours, facts["defaults"]) == _wanted(facts)
        return
    for name, member in facts.get("members", {}).items():
        own = getattr(ours, name, None)
        private = name.startswith("_") and name not in ("__init__", "__call__")
        if "argspec" not in member or own is None or private:
            continue
        if f"{ours.__name__}.{name}" not in _OWN and inspect.isfunction(own):
            found = _found(own, member["defaults"])
            assert (name, *found) == (name, *_wanted(member))
