"""`fluid.save` and `fluid.load`: parameters (`.pdparams`), optimizer state (`.pdopt`) and the
program (`.pdmodel`) as three files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from refluid.core.dtypes import dtype_name
from refluid.core.errors import EnforceNotMet
from refluid.core.fetched import fetched
from refluid.core.files import decode_combined_file, decode_file, write_file
from refluid.core.pickles import dump_arrays, load_arrays
from refluid.core.values import LoDTensor
from refluid.fluid.persistence import (
    initialized_cell,
    is_belong_to_optimizer,
    is_parameter,
    is_persistable,
    store,
)
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable


def get_program_parameter(program: Program) -> list[Variable]:
    """All parameters of a program."""
    return [var for var in program.list_vars() if is_parameter(var)]


def get_program_persistable_vars(program: Program) -> list[Variable]:
    """All persistable variables of a program."""
    return [var for var in program.list_vars() if is_persistable(var)]


def get_parameter_value(para: Variable, executor: Any) -> Any:
    """The value of a parameter in the current scope, as array."""
    if not is_parameter(para):
        raise AssertionError(f"{para.name} is not a parameter")
    return fetched(np.array(initialized_cell(para.name).get_tensor()))


def get_parameter_value_by_name(name: str, executor: Any, program: Program | None = None) -> Any:
    """The value of the parameter of that name, as array."""
    from refluid.ir.defaults import default_main_program

    program = default_main_program() if program is None else program
    return get_parameter_value(program.global_block().var(name), executor)


def _base(model_path: str | Path) -> str:
    path = str(model_path)
    if not Path(path).name:
        raise AssertionError(
            "The input model_path MUST be format of dirname/filename "
            "[dirname\\filename in Windows system], but received model_path is empty string."
        )
    return path


def save(program: Program, model_path: str | Path) -> None:
    """Saves the current scope's values of a program, and the program, as `model_path.pd*`.

    Raises EnforceNotMet for a variable without value.
    """
    base = _base(model_path)
    for suffix, chosen in ((".pdparams", is_parameter), (".pdopt", is_belong_to_optimizer)):
        names = [var.name for var in program.list_vars() if chosen(var)]
        arrays = {name: np.asarray(initialized_cell(name).get_tensor()) for name in names}
        if arrays or suffix == ".pdparams":
            dump_arrays(base + suffix, arrays)
    write_file(base + ".pdmodel", lambda file: file.write(program.serialize_to_string()))


def load_program_state(
    model_path: str | Path, var_list: Sequence[Variable] | None = None
) -> dict[str, Any]:
    """Arrays by name, from `model_path.pdparams`/`.pdopt` or from a folder or file of
    `save_persistables` and the like (a single file needs `var_list`)."""
    base = _base(model_path)
    path = Path(base)
    if Path(base + ".pdparams").is_file():
        arrays = dict(load_arrays(base + ".pdparams"))
        if Path(base + ".pdopt").is_file():
            arrays |= load_arrays(base + ".pdopt")
        return {name: fetched(array) for name, array in arrays.items()}
    if path.is_dir():
        wanted = None if var_list is None else {var.name for var in var_list}
        files = [file for file in sorted(path.iterdir()) if file.is_file()]
        files = [file for file in files if wanted is None or file.name in wanted]
        files = [file for file in files if file.name != "__model__"]
        return {file.name: fetched(np.array(decode_file(file))) for file in files}
    if path.is_file():
        if var_list is None:
            raise ValueError(
                f"{base} holds several variables and no names: give var_list, the variables that "
                "were saved into it"
            )
        names = sorted(var.name for var in var_list)
        loaded = decode_combined_file(path, names)
        return {name: fetched(np.array(tensor)) for name, tensor in loaded.items()}
    raise EnforceNotMet(f"Parameter file {base}.pdparams does not exist, nor does {base}")


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Puts arrays into the current scope, each checked against its variable of the program.

    Names that the program lacks are ignored, as in Fluid. Raises EnforceNotMet for a wrong shape.
    """
    for var in program.list_vars():
        if is_persistable(var) and var.name in state_dict:
            _store_array(var, np.asarray(state_dict[var.name]), "the state given", "cpu")


def _store_array(var: Variable, array: Any, origin: object, device: Any) -> None:
    tensor = torch.from_numpy(np.array(array, copy=True))
    if isinstance(var, Parameter) and dtype_name(var.dtype) != str(array.dtype):
        raise EnforceNotMet(
            f"{origin}: parameter {var.name} is {dtype_name(var.dtype)} in the program and "
            f"{array.dtype} in the file"
        )
    store(var, LoDTensor(tensor), device, origin)


def load(
    program: Program,
    model_path: str | Path,
    executor: Any = None,
    var_list: Sequence[Variable] | None = None,
) -> None:
    """Loads what `save` (or `save_persistables` and the like) saved into the current scope.

    Raises EnforceNotMet for missing or damaged files, missing variables and wrong shapes.
    """
    device = getattr(getattr(executor, "place", None), "device", "cpu")
    arrays = load_program_state(model_path, var_list)
    wanted = {var.name for var in var_list} if var_list is not None else None
    for var in program.list_vars():
        if not is_persistable(var) or (wanted is not None and var.name not in wanted):
            continue
        if var.name not in arrays:
            raise EnforceNotMet(
                f"Can not find [{var.name}] in model file [{model_path}]. Was the model saved by "
                "another program?"
            )
        _store_array(var, arrays[var.name], model_path, device)
