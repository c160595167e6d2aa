"""`fluid.save_dygraph` and `load_dygraph`: states of layers and optimizers in files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.errors import EnforceNotMet
from refluid.core.pickles import STRUCTURED, dump_arrays, load_state
from refluid.eager import ParamBase, VarBase

__all__ = ["load_dygraph", "save_dygraph"]


def save_dygraph(state_dict: Mapping[str, Any], model_path: str) -> None:
    """Writes a state: `model_path`.pdparams for a layer's, .pdopt for an optimizer's.

    A layer's holds, beside its parameters by attributes, the names of the parameters.
    """
    path = Path(model_path)
    assert path.name and not model_path.endswith("/"), (
        "The input model_path MUST be format of dirname/filename [dirname\\filename in Windows "
        "system], but received model_path is empty string."
    )
    if not state_dict:
        raise ValueError("state_dict is empty, no need to save")
    values: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for name, one in state_dict.items():
        if isinstance(one, VarBase):
            values[name] = one.numpy()
        elif isinstance(one, np.ndarray):
            values[name] = one
        else:
            others[name] = one
    of_layer = any(isinstance(one, ParamBase) for one in state_dict.values())
    if of_layer:
        others[STRUCTURED] = {name: getattr(one, "name", name) for name, one in state_dict.items()}
    if path.parent != Path():
        path.parent.mkdir(parents=True, exist_ok=True)
    file = path.with_name(path.name + (".pdparams" if of_layer else ".pdopt"))
    dump_arrays(file, values, others)


def _loaded(file: Path) -> dict[str, Any]:
    state = load_state(file)
    return {**state.arrays, **state.others}


def load_dygraph(
    model_path: str, keep_name_table: bool = False
) -> tuple[dict[str, Any] | None, dict[str, Any] | None]:
    """What `save_dygraph` wrote: the state of a layer and that of an optimizer, None where absent.

    model_path: without suffix, or with one of the two. keep_name_table: the names of parameters
    stay in the layer's. EnforceNotMet where there is neither.
    """
    stem = model_path
    for suffix in (".pdparams", ".pdopt"):
        stem = stem.removesuffix(suffix)
    found: list[dict[str, Any] | None] = []
    for suffix in (".pdparams", ".pdopt"):
        file = Path(stem + suffix)
        found.append(_loaded(file) if file.exists() else None)
    layer, optimizer = found
    if layer is None and optimizer is None:
        raise EnforceNotMet(
            f"Parameter file [ {stem}.pdparams ] not exists; save one by fluid.save_dygraph"
        )
    if layer is not None and not keep_name_table:
        layer.pop(STRUCTURED, None)
    return layer, optimizer
