"""`paddle.save` and `paddle.load`: states of layers and optimizers in one file each."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.pickles import STRUCTURED, dump_arrays, load_state
from refluid.core.values import LoDTensor
from refluid.eager import ParamBase, VarBase
from refluid.fluid.dygraph.base import to_variable
from refluid.paddle.framework.modes import in_dynamic_mode


def save(obj: Any, path: str, protocol: int = 4, **configs: Any) -> None:
    """Writes a dict of variables, arrays, plain values, and dicts and lists of them to a file.

    protocol: taken, but files are written in the one that Fluid and Paddle 2 both read. Raises
    TypeError for anything but a dict with names.
    """
    if not isinstance(obj, Mapping) or not all(isinstance(name, str) for name in obj):
        raise TypeError(f"refluid saves dicts with names, not {type(obj).__name__}")
    if not Path(path).name or path.endswith("/"):
        raise ValueError(f"paddle.save: {path!r} names no file")
    plain = {name: _plain(one) for name, one in obj.items()}
    arrays = {name: one for name, one in plain.items() if isinstance(one, np.ndarray)}
    others = {name: one for name, one in plain.items() if name not in arrays}
    if any(isinstance(one, ParamBase) for one in obj.values()):
        others[STRUCTURED] = {name: getattr(one, "name", name) for name, one in obj.items()}
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    dump_arrays(Path(path), arrays, others)


def load(path: str, **configs: Any) -> dict[str, Any]:
    """What `save` wrote. Where functions run at once its arrays are variables.

    return_numpy=True: arrays in any case. EnforceNotMet for a missing or damaged file.
    """
    state = load_state(Path(path))
    others = {name: one for name, one in state.others.items() if name != STRUCTURED}
    found = {**state.arrays, **others}
    if configs.get("return_numpy") or not in_dynamic_mode():
        return found
    return {name: _as_variables(one) for name, one in found.items()}


def _plain(one: Any) -> Any:
    """What is saved of a value: arrays of variables, also in dicts and lists."""
    if isinstance(one, VarBase | np.ndarray | LoDTensor):
        return one.numpy() if isinstance(one, VarBase) else np.asarray(one)
    if isinstance(one, Mapping):
        return {key: _plain(value) for key, value in one.items()}
    if isinstance(one, list | tuple):
        return type(one)(_plain(value) for value in one)
    return one


def _as_variables(one: Any) -> Any:
    if isinstance(one, np.ndarray):
        return to_variable(one)
    if isinstance(one, dict):
        return {key: _as_variables(value) for key, value in one.items() if key != STRUCTURED}
    if isinstance(one, list | tuple):
        return type(one)(_as_variables(value) for value in one)
    return one
