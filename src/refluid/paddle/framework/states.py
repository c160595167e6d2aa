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
    """Writes a dict of variables, arrays and plain values to a file.

    protocol: taken, but files are written in the one that Fluid and Paddle 2 both read. Raises
    TypeError for anything but a dict with names.
    """
    if not isinstance(obj, Mapping) or not all(isinstance(name, str) for name in obj):
        raise TypeError(f"refluid saves dicts with names, not {type(obj).__name__}")
    if not Path(path).name or path.endswith("/"):
        raise ValueError(f"paddle.save: {path!r} names no file")
    arrays = {name: _array(one) for name, one in obj.items() if _is_array(one)}
    others = {name: one for name, one in obj.items() if name not in arrays}
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
    if configs.get("return_numpy") or not in_dynamic_mode():
        return {**state.arrays, **others}
    return {**{name: to_variable(one) for name, one in state.arrays.items()}, **others}


def _is_array(one: Any) -> bool:
    return isinstance(one, VarBase | np.ndarray | LoDTensor)


def _array(one: Any) -> Any:
    return one.numpy() if isinstance(one, VarBase) else np.asarray(one)
