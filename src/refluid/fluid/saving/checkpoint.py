"""`fluid.save` and `fluid.load`: parameters (`.pdparams`), optimizer state (`.pdopt`) and the
program (`.pdmodel`) as three files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.fetched import fetched
from refluid.core.files import decode_combined_file, decode_file
from refluid.core.folders import file_of
from refluid.core.pickles import dumping, load_arrays, load_named
from refluid.core.values import LoDTensor
from refluid.core.writing import Write, write_files
from refluid.fluid.saving.persistence import (
    initialized_cell,
    is_belong_to_optimizer,
    is_parameter,
    is_persistable,
)
from refluid.fluid.saving.programs import program_of
from refluid.fluid.saving.served import as_trained_alone
from refluid.fluid.saving.storing import Loaded, store
from refluid.ir.program import Program
from refluid.ir.variable import Variable


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
    """What files' names begin with; AssertionError for a folder that nothing follows."""
    path = str(model_path)
    if not os.path.basename(path):
        raise AssertionError(
            "The input model_path MUST be format of dirname/filename "
            "[dirname\\filename in Windows system], but received model_path is empty string."
        )
    return path


def save(program: Program, model_path: str | Path) -> None:
    """Saves the current scope's values of a program, and the program, as `model_path.pd*`.

    All three files are new or, if anything fails, as before. Raises EnforceNotMet for a variable
    without value and for files that can't be written, AssertionError for a path that ends in `/`.
    """
    base = _base(model_path)
    with as_trained_alone(program_of(program)) as trained:
        write_files(_files(trained, base))


def _files(program: Program, base: str) -> list[tuple[Path, Write]]:
    files: list[tuple[Path, Write]] = []
    for suffix, chosen in ((".pdparams", is_parameter), (".pdopt", is_belong_to_optimizer)):
        names = [var.name for var in program.list_vars() if chosen(var)]
        arrays = {name: np.asarray(initialized_cell(name).get_tensor()) for name in names}
        if arrays or suffix == ".pdparams":
            files.append((Path(base + suffix), dumping(arrays)))
    message = program.serialize_to_string()
    files.append((Path(base + ".pdmodel"), lambda file: file.write(message)))
    return files


def load_program_state(
    model_path: str | Path, var_list: Sequence[Variable] | None = None
) -> dict[str, Any]:
    """Arrays by name, from `model_path.pdparams`/`.pdopt` or from a folder or file of
    `save_persistables` and the like (a single file needs `var_list`). The name of one of the
    files that `save` wrote stands for all."""
    base = _base(str(model_path).rstrip("/"))
    stem, suffix = os.path.splitext(base)
    if suffix in (".pdparams", ".pdopt", ".pdmodel"):
        base = stem
    path = Path(base)
    if Path(base + ".pdparams").is_file():
        arrays = dict(load_named(base + ".pdparams"))
        if Path(base + ".pdopt").is_file():
            arrays |= load_arrays(base + ".pdopt")
        return {name: fetched(array) for name, array in arrays.items()}
    if path.is_dir():
        files = _files_in(path, var_list)
        return {name: fetched(np.array(decode_file(file))) for name, file in files.items()}
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


def _files_in(folder: Path, var_list: Sequence[Variable] | None) -> dict[str, Path]:
    """The files of variables in a folder and its sub-folders, by the variables' names."""
    if var_list is not None:
        files = {var.name: file_of(folder, var.name) for var in var_list}
        return {name: file for name, file in files.items() if file.is_file()}
    found = (file for file in sorted(folder.rglob("*")) if file.is_file())
    named = {file.relative_to(folder).as_posix(): file for file in found}
    return {name: file for name, file in named.items() if name != "__model__"}


def set_program_state(program: Program, state_dict: Mapping[str, Any]) -> None:
    """Puts arrays into the current scope, each checked against its variable of the program.

    Names that the program lacks are ignored, as in Fluid. Raises EnforceNotMet for a wrong shape
    or type; no value is changed then.
    """
    given = [
        _loaded(var, state_dict[var.name], "the state given")
        for var in program.list_vars()
        if is_persistable(var) and var.name in state_dict
    ]
    store(given, "cpu")


def _loaded(var: Variable, array: Any, origin: object) -> Loaded:
    try:
        tensor = torch.from_numpy(np.array(array, copy=True, order="C"))
    except TypeError as error:
        raise EnforceNotMet(f"{origin}: variable {var.name}: {error}") from error
    return Loaded(var, LoDTensor(tensor), origin)


def load(
    program: Program,
    model_path: str | Path,
    executor: Any = None,
    var_list: Sequence[Variable] | None = None,
) -> None:
    """Loads what `save` (or `save_persistables` and the like) saved into the current scope.

    Raises EnforceNotMet for missing or damaged files, missing variables, wrong shapes and types.
    """
    device = getattr(getattr(executor, "place", None), "device", "cpu")
    arrays = load_program_state(model_path, var_list)
    wanted = {var.name for var in var_list} if var_list is not None else None
    loaded: list[Loaded] = []
    for var in program_of(program).list_vars():
        if not is_persistable(var) or (wanted is not None and var.name not in wanted):
            continue
        if var.name not in arrays:
            raise EnforceNotMet(
                f"Can not find [{var.name}] in model file [{model_path}]. Was the model saved by "
                "another program?"
            )
        loaded.append(_loaded(var, arrays[var.name], model_path))
    store(loaded, device)
