"""Values of variables in a scope by name: of one, or of several (Paddle 2)."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np

from refluid.core.dtypes import as_dtype
from refluid.core.lod_tensor import LoDTensor
from refluid.core.scope import Cell, Scope, global_scope


def _cell(scope: Scope | None, name: str) -> Cell | None:
    found = (global_scope() if scope is None else scope).find_var(name)
    return found if found is not None and found.is_initialized() else None


def value_in(scope: Scope | None, name: str) -> LoDTensor:
    """The tensor of a variable in a scope, by default the current one.

    ValueError where it has no value there.
    """
    cell = _cell(scope, name)
    if cell is None:
        raise ValueError(f"Variable {name!r} has no value in the scope: run the startup program")
    return cell.get_tensor()


def set_value_in(scope: Scope | None, name: str, value: Any) -> None:
    """Overwrites a variable. ValueError where it has no value, or one of another shape or type."""
    held, given = value_in(scope, name), np.asarray(value)
    if held.shape() != list(given.shape):
        raise ValueError(f"Variable {name!r} has shape {held.shape()}, not {list(given.shape)}")
    if held._dtype() != as_dtype(given.dtype):
        raise ValueError(f"Variable {name!r} is {held._dtype().name}, not {given.dtype}")
    held.set(given, held._place())


def state_in(scope: Scope | None, names: Iterable[str]) -> dict[str, LoDTensor]:
    """Values by name, of those variables that have one in the scope."""
    return {name: value_in(scope, name) for name in names if _cell(scope, name) is not None}


def set_state_in(scope: Scope | None, known: Collection[str], state: Mapping[str, Any]) -> None:
    """Overwrites variables by name; warns of names that aren't known."""
    for name, value in state.items():
        if name in known:
            set_value_in(scope, name, value)
        else:
            warnings.warn(f"Variable {name!r} is not in the program: skipped", stacklevel=3)
