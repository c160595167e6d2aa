"""Every public name of Fluid 1.8.5 is there, with Fluid's parameters and their defaults."""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.golden import GOLDEN, needs_golden

# Fluid's own plumbing, which in refluid is made otherwise.
_OWN = {
    "Block.__init__",
    # A scope of None is the present one.
    *(
        f"FleetUtil.{verb}_global_{what}"
        for verb in ("get", "print")
        for what in ("auc", "metrics")
    ),
    "FleetUtil.set_zero",
    "LoDTensor.__init__",
    "BoxPSDataset.preload_into_memory",
    "Operator.__init__",
    "ParamBase.__init__",
    "Parameter.__init__",
    "Variable.__init__",
    # In programs too, as in Paddle 2.
    "Variable.set_value",
    "ZeroCopyTensor.__init__",
    "UniqueNameGenerator.__init__",
}
# What a module took from Python's and other libraries is no part of the surface.
_FOREIGN = {"foreign", "missing"}
_FOREIGN_NAMES = {"import_cv2_proc", "movie_reviews"}
_FOREIGN_TYPES = {"_Feature", "Logger", "FileDescriptor", "EnumTypeWrapper", "OpProto"}


@cache
def _surface() -> Any:
    return json.loads((GOLDEN / "api_surface.json").read_text())


def _modules() -> list[str]:
    found = _surface()["modules"] if GOLDEN.is_dir() else []
    return list(found)


def _names(facts: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Names of a module that are Fluid's, each with its home, or what is known of it."""
    for name, target in facts["names"].items():
        if isinstance(target, str):
            is_fluids = target.startswith("paddle")
        elif target["kind"] == "module":
            is_fluids = target["value"] in _surface()["modules"]
        else:
            is_fluids = target["kind"] not in _FOREIGN and target["type"] not in _FOREIGN_TYPES
        if is_fluids and name not in _FOREIGN_NAMES:
            yield name, target


def _found_module(name: str) -> Any:
    is_fluid = name == "paddle.fluid" or name.startswith("paddle.fluid.")
    own = "refluid." + name.removeprefix("paddle.") if is_fluid else "refluid." + name
    return importlib.import_module(own)


@needs_golden
@pytest.mark.parametrize("module", _modules())
def test_names_of_fluid_are_there(module: str) -> None:
    facts = _surface()["modules"][module]
    found = _found_module(module)
    missing = [name for name, _ in _names(facts) if not hasattr(found, name)]
    assert missing == []


@needs_golden
def test_coverage() -> None:
    """Counts what resolves: `pytest -s` shows it."""
    surface = _surface()
    objects, modules = set(), 0
    for module in _modules():
        found = _found_module(module)
        modules += 1
        for name, target in _names(surface["modules"][module]):
            if isinstance(target, str) and hasattr(found, name):
                objects.add(target)
    named = surface["objects"].keys()
    print(
        f"\n{len(objects & named)} of {len(named)} objects and {modules} of "
        f"{len(surface['modules'])} modules of Fluid 1.8.5 resolve"
    )
    assert named - objects == set()


def _cases() -> Iterator[Any]:
    surface = _surface()
    for module in _modules():
        ours = _found_module(module)
        for name, target in surface["modules"][module]["names"].items():
            facts = surface["objects"].get(target) if isinstance(target, str) else None
            public = name == "__init__" or not name.startswith("_")
            if facts is None or not public or target != f"{module}.{name}":
                continue
            if hasattr(ours, name):
                yield pytest.param(getattr(ours, name), facts, id=f"{module}.{name}")


def _wanted(facts: dict[str, Any]) -> tuple[list[str], dict[str, Any]]:
    names = ast.literal_eval(re.search(r"args=(\[[^]]*\])", facts["argspec"])[1])  # type: ignore[index]
    return names, {name: _recorded(value) for name, value in facts["defaults"].items()}


def _recorded(value: Any) -> Any:
    """A recorded default; of a class and of an object only the class's name."""
    if not isinstance(value, str):
        return value
    if value.startswith("{'"):
        return sorted(ast.literal_eval(value))
    value = re.sub(r"^<class '(?:\w+\.)*(\w+)'>$", r"\1", value)
    return re.sub(r"^<(?:\w+\.)*(\w+) object>$", r"\1()", value)


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, type):
        return value.__name__
    is_plain = value is None or type(value) in (bool, int, float, str, dict)
    return value if is_plain else _recorded(re.sub(r" at 0x\w+", "", str(value)))


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
    defaults = {
        name: "..." if wanted[name] == "..." else _plain(value)  # a path, which was left out
        for name, value in given.items()
        if name in wanted
    }
    return list(named), defaults


def _takes_anything(facts: dict[str, Any]) -> bool:
    """Whether Fluid's function was wrapped, so that its parameters don't show."""
    return "args=[], varargs='args', varkw='kwargs'" in facts["argspec"]


@needs_golden
@pytest.mark.parametrize(("ours", "facts"), list(_cases()) if GOLDEN.is_dir() else [])
def test_signature_is_fluids(ours: Any, facts: dict[str, Any]) -> None:
    if "argspec" not in facts or _takes_anything(facts) or facts["kind"] == "instance":
        return
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
