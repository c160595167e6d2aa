"""Public names of Paddle 2.6.2: each is there, or says that it is not, with the reason."""

from __future__ import annotations

import importlib
import inspect
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import refluid.paddle
from refluid.core.stub_tables import entries

RECORDED = json.loads((Path(__file__).parent / "paddle2_names.json").read_text())
# What isn't recorded as a function or class with a signature.
_WITHOUT = {"function", "class", "module", "value"}
# Modules that are Fluid's own.
_OF_FLUID = {"paddle.sysconfig", "paddle.utils.unique_name", "paddle.version"}
# Names that are as in Fluid, and why.
AS_IN_FLUID = {
    "paddle.DataParallel": "that of fluid.dygraph",
    "paddle.Tensor": "what programs are made of",
    "paddle.complex": "a module of Fluid's",
    "paddle.no_grad": "a decorator too, as in Fluid",
    "paddle.static.Variable": "what programs are made of",
    "paddle.static.amp.AutoMixedPrecisionLists": "the type is `decorate`'s to say",
    "paddle.static.amp.CustomOpLists": "the type is `decorate`'s to say",
    "paddle.static.amp.decorate": "recorded without parameters",
}


def _modules() -> list[str]:
    return [name for name in RECORDED if name not in _OF_FLUID]


def _missing(module: str) -> list[str]:
    found = importlib.import_module(f"refluid.{module}")
    kinds = RECORDED[module]
    return [name for name, kind in kinds.items() if kind != "value" and not hasattr(found, name)]


@pytest.mark.parametrize("module", _modules())
def test_names_are_there(module: str) -> None:
    assert [name for name in _missing(module) if RECORDED[module][name] != "module"] == []


def _parameters(signature: inspect.Signature) -> list[tuple[str, Any, str]]:
    return [
        (one.name, one.kind, "" if one.default is one.empty else _shown(one.default))
        for one in signature.parameters.values()
    ]


def _shown(default: Any) -> str:
    if isinstance(default, str) and default.startswith("<"):
        return default  # how an object was recorded
    return repr(tuple(default) if isinstance(default, list) else default)


def _parsed(text: str) -> inspect.Signature:
    """A signature that was recorded as text; a default that is an object stands for its text."""
    plain = re.sub(r"(<[^>]*>)", lambda match: repr(match[0]), re.sub(r"->.*", "", text))
    namespace: dict[str, Any] = {}
    exec(f"from __future__ import annotations\ndef recorded{plain}: pass", namespace)
    return inspect.signature(namespace["recorded"])


def _real() -> Iterator[Any]:
    for module in _modules():
        found = importlib.import_module(f"refluid.{module}")
        table = entries(module)
        for name, text in RECORDED[module].items():
            full = f"{module}.{name}"
            absent = name in table or not hasattr(found, name)
            if text in _WITHOUT or absent or full in AS_IN_FLUID:
                continue
            yield pytest.param(getattr(found, name), text, id=full)


@pytest.mark.parametrize(("found", "text"), [*_real()])
def test_parameters_are_paddles(found: Any, text: str) -> None:
    assert _parameters(inspect.signature(found)) == _parameters(_parsed(text))


def test_how_many_are_real() -> None:
    """`pytest -s` shows it. A floor, so that nothing is lost unseen."""
    real = sum(1 for _ in _real())
    named = sum(text not in _WITHOUT for module in _modules() for text in RECORDED[module].values())
    print(f"\n{real} of {named} functions and classes of Paddle 2.6.2's modules are there")
    assert real >= 560


def _counts(module: str) -> tuple[int, int]:
    """How many names of a module are there, and how many Paddle has."""
    found, table = importlib.import_module(f"refluid.{module}"), entries(module)
    names = [name for name, kind in RECORDED[module].items() if kind not in ("module", "value")]
    return sum(name not in table and hasattr(found, name) for name in names), len(names)


def test_the_page_counts_them() -> None:
    page = (Path(__file__).parents[3] / "docs" / "paddle2.md").read_text()
    rows = re.findall(r"^\| (`paddle[^|]*)\| (\d+) \| (\d+) \|$", page, re.MULTILINE)
    for label, real, named in rows:
        first, *others = re.findall(r"`([\w.]+)`", label)
        modules = [first, *(first + one if one[0] == "." else one for one in others)]
        counts = [_counts(one) for one in modules]
        found = tuple(map(sum, zip(*counts, strict=True)))
        assert found == (int(real), int(named)), modules
    assert len(rows) > 12


def test_what_is_missing_is_named() -> None:
    with pytest.raises(NotImplementedError, match=r"paddle\.sparse\.sin yet: "):
        importlib.import_module("refluid.paddle.sparse").sin(None)
    with pytest.raises(NotImplementedError, match=r"paddle\.nn\.functional\.sparse_attention yet"):
        refluid.paddle.nn.functional.sparse_attention(None, None, None, None, None)
    with pytest.raises(AttributeError, match="no_such"):
        _ = refluid.paddle.no_such
    with pytest.raises(AttributeError, match="no_such"):
        _ = refluid.paddle.nn.functional.no_such


def test_a_star_import_takes_the_names() -> None:
    names: dict[str, Any] = {}
    exec("from refluid.paddle.nn.functional import *", names)
    assert names["relu"] is refluid.paddle.nn.functional.relu
    assert "conv2d" in dir(refluid.paddle.nn.functional)
