"""`fluid.save_dygraph` and `load_dygraph`: states of layers and optimizers in files."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.codec import write_lod_tensor
from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_file
from refluid.core.pickles import STRUCTURED, dump_arrays, load_state
from refluid.core.writing import write_file
from refluid.eager import ParamBase, VarBase
from refluid.fluid.dygraph.first_calls import ByName

__all__ = ["load_dygraph", "load_persistables", "save_dygraph", "save_persistables"]

_OPTIMIZERS = "optimizers"


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


def save_persistables(
    model_dict: Mapping[str, Any], dirname: str = "save_dir", optimizers: Any = None
) -> None:
    """Writes each variable of a layer's state to a file of its name, as Fluid 1.5 and 1.6 did.

    optimizers: one, or several, whose state is kept beside. `save_dygraph` has taken its place.
    """
    if not model_dict:
        return
    folder = Path(dirname)
    folder.mkdir(parents=True, exist_ok=True)
    for one in model_dict.values():
        tensor = one.tensor.detach().cpu()
        write_file(folder / one.name, partial(write_lod_tensor, tensor=tensor))
    given = optimizers if isinstance(optimizers, list | tuple) else [optimizers]
    states = {str(n): one.state_dict() for n, one in enumerate(given) if one is not None}
    if states:
        dump_arrays(
            folder / _OPTIMIZERS,
            {
                f"{n}/{name}": one.numpy()
                for n, state in states.items()
                for name, one in state.items()
                if isinstance(one, VarBase)
            },
            {},
        )


def load_persistables(dirname: str = "save_dir") -> tuple[dict[str, Any], dict[str, Any]]:
    """What `save_persistables` wrote: values by the names of parameters, and of optimizers.

    `Layer.set_dict` sets parameters of these names to the first. The second is the state of the
    first optimizer, for its `set_dict`. EnforceNotMet where there is no such folder.
    """
    folder = Path(dirname)
    if not folder.is_dir():
        raise EnforceNotMet(f"{dirname!r} is no folder; save_persistables writes one")
    kept = folder / _OPTIMIZERS
    files = (one for one in sorted(folder.rglob("*")) if one.is_file() and one != kept)
    values = ByName(
        (str(one.relative_to(folder)), decode_file(one).tensor.numpy()) for one in files
    )
    state = _loaded(kept) if kept.exists() else {}
    first = {name[2:]: value for name, value in state.items() if name.startswith("0/")}
    return values, first
