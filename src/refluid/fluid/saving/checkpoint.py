"""`fluid.save` and `fluid.load`: parameters (`.pdparams`), optimizer state (`.pdopt`) and the
program (`.pdmodel`) as three files."""

from __future__ import annotations

import os
import warnings
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
from refluid.fluid.saving.storing import Loaded, few, store
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
    files that `save` wrote stands for all. Of a folder, files that hold no variable are left out
    with a RuntimeWarning."""
    base = _stem(model_path)
    path = Path(base)
    if _is_folder(base):
        return _all_in(path) if var_list is None else _some_in(path, var_list)
    if Path(base + ".pdparams").is_file():
        arrays = dict(load_named(base + ".pdparams"))
        if Path(base + ".pdopt").is_file():
            arrays |= load_arrays(base + ".pdopt")
        return {name: fetched(array) for name, array in arrays.items()}
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


def _stem(model_path: str | Path) -> str:
    """What the names of all files of a model begin with, of the name of one of them too."""
    base = _base(str(model_path).rstrip("/"))
    stem, suffix = os.path.splitext(base)
    return stem if suffix in (".pdparams", ".pdopt", ".pdmodel") else base


def _is_folder(base: str) -> bool:
    """Whether variables lie there in files of their own, and not in what `save` wrote."""
    return Path(base).is_dir() and not Path(base + ".pdparams").is_file()


def _some_in(folder: Path, variables: Sequence[Variable]) -> dict[str, Any]:
    """The arrays of those variables that have a file in the folder."""
    files = {var.name: file_of(folder, var.name) for var in variables}
    return {
        name: fetched(np.array(decode_file(file))) for name, file in files.items() if file.is_file()
    }


def _all_in(folder: Path) -> dict[str, Any]:
    """The arrays of a folder and its sub-folders; a warning names each file that is none."""
    arrays = {}
    for name in _names_in(folder):
        try:
            arrays[name] = fetched(np.array(decode_file(folder / name)))
        except EnforceNotMet as error:
            warnings.warn(f"left out, as it is no variable: {error}", RuntimeWarning, stacklevel=3)
    return arrays


def _names_in(folder: Path) -> list[str]:
    """The names of a folder's files as variables would have them, but for the program's."""
    found = [file for file in sorted(folder.rglob("*")) if file.is_file()]
    return [name for file in found if (name := file.relative_to(folder).as_posix()) != "__model__"]


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
    Of a folder, variables without a file keep their values, and files of no variable are left
    unread: a warning names both.
    """
    device = getattr(getattr(executor, "place", None), "device", "cpu")
    wanted = {var.name for var in var_list} if var_list is not None else None
    kept = [var for var in program_of(program).list_vars() if is_persistable(var)]
    chosen = [var for var in kept if wanted is None or var.name in wanted]
    base = _stem(model_path)
    in_folder = _is_folder(base)
    arrays = load_program_state(model_path, chosen if in_folder else var_list)
    absent = [var.name for var in chosen if var.name not in arrays]
    if in_folder:
        _tell(absent, set(_names_in(Path(base))) - {var.name for var in kept}, model_path)
    elif absent:
        raise EnforceNotMet(
            f"Can not find [{absent[0]}] in model file [{model_path}]. Was the model saved by "
            "another program?"
        )
    found = [var for var in chosen if var.name in arrays]
    store([_loaded(var, arrays[var.name], model_path) for var in found], device)


def _tell(absent: Sequence[str], unused: set[str], folder: str | Path) -> None:
    """Warns `load`'s caller of variables that a folder lacks, and of files that are none."""
    said = [f"no file of {few(absent)}, which keep their values"] * bool(absent)
    if unused:
        said.append(f"files not used: {few(sorted(unused))}")
    stems = sorted(name.removesuffix(".pdparams") for name in unused if name.endswith(".pdparams"))
    if absent and stems:
        said.append(f"what fluid.save wrote is loaded as {Path(folder) / stems[0]}")
    if said:
        warnings.warn(f"fluid.load: {folder} has {'; '.join(said)}", RuntimeWarning, stacklevel=3)
