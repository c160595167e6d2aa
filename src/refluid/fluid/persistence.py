"""`save_vars`, `save_params`, `save_persistables` and their `load_` twins: Fluid's tensor files.

One file per variable, or all in one file (`filename=`), ordered by name, byte for byte as Fluid
1.8 writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from refluid.core.codec import write_lod_tensor, write_selected_rows
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.files import (
    decode_combined_file,
    decode_file,
    decode_selected_rows_file,
    write_file,
)
from refluid.core.values import LoDTensor, SelectedRows
from refluid.ir.defaults import default_main_program
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable
from refluid.runtime.scope import Cell, global_scope

_NOT_DATA = {VarType.FEED_MINIBATCH, VarType.FETCH_LIST, VarType.READER, VarType.RAW}
Predicate = Callable[[Variable], bool]


def is_parameter(var: Variable) -> bool:
    """Whether a variable is a `Parameter`."""
    return isinstance(var, Parameter)


def is_persistable(var: Variable) -> bool:
    """Whether a variable holds data that outlives a run."""
    return var.type not in _NOT_DATA and var.persistable


def is_belong_to_optimizer(var: Variable) -> bool:
    """Whether a variable is persistable and no parameter, as an optimizer's accumulators are."""
    return is_persistable(var) and not is_parameter(var)


def _program(program: Any) -> Program:
    program = default_main_program() if program is None else program
    if not isinstance(program, Program):
        raise TypeError(
            f"The type of input main_program is invalid, expected type is fluid.Program, "
            f"but received {type(program)}"
        )
    return program


def _chosen(
    program: Any, variables: Iterable[Variable | str] | None, predicate: Predicate | None
) -> list[Variable]:
    program = _program(program)
    if variables is None:
        return [var for var in program.list_vars() if predicate is None or predicate(var)]
    block = program.global_block()
    return [block.var(var) if isinstance(var, str) else var for var in variables]


def initialized_cell(name: str) -> Cell:
    """The scope's variable of that name; EnforceNotMet where it holds nothing to save."""
    cell = global_scope().find_var(name)
    if cell is None or cell.value is None:
        raise EnforceNotMet(
            f"The variable {name} to be saved has no value. Run the startup program, or load the "
            "variable, in the scope that you save from."
        )
    return cell


def save_vars(
    executor: Any,
    dirname: str | Path,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> None:
    """Saves variables of the current scope into folder `dirname`.

    vars: which ones; without it those of `main_program` that `predicate` accepts. filename: all
    in this one file, ordered by name, instead of a file each.
    Raises EnforceNotMet for a variable without value; nothing is left half written.
    """
    chosen = {
        var.name: initialized_cell(var.name) for var in _chosen(main_program, vars, predicate)
    }
    folder = Path(dirname)
    folder.mkdir(parents=True, exist_ok=True)
    if filename is None:
        for name, cell in chosen.items():
            write_file(folder / name, partial(_write, [cell]))
        return
    cells = [chosen[name] for name in sorted(chosen)]
    write_file(folder / filename, partial(_write, cells))


def _write(cells: Sequence[Cell], file: BinaryIO) -> None:
    for cell in cells:
        if isinstance(cell.value, SelectedRows):
            write_selected_rows(file, cell.value)
        else:
            write_lod_tensor(file, cell.value, cell.lod)


def load_vars(
    executor: Any,
    dirname: str | Path,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Predicate | None = None,
    filename: str | None = None,
) -> None:
    """Loads variables saved by `save_vars` into the current scope.

    Raises EnforceNotMet for a missing, truncated or damaged file and for a value whose shape is
    not the variable's.
    """
    chosen = _chosen(main_program, vars, predicate)
    folder = Path(dirname)
    device = getattr(getattr(executor, "place", None), "device", "cpu")
    if filename is not None:
        names = sorted(var.name for var in chosen)
        values: dict[str, Any] = dict(decode_combined_file(folder / filename, names))
    else:
        values = {var.name: _read(folder / var.name, var) for var in chosen}
    for var in chosen:
        store(var, values[var.name], device, folder)


def _read(path: Path, var: Variable) -> LoDTensor | SelectedRows:
    sparse = var.type == VarType.SELECTED_ROWS
    return decode_selected_rows_file(path) if sparse else decode_file(path)


def store(var: Variable, value: Any, device: Any, origin: object) -> None:
    """Puts a loaded value into the scope, if it has the shape of its variable."""
    cell = global_scope().find_var(var.name) or global_scope().var(var.name)
    if isinstance(value, SelectedRows):
        cell.value = value
        return
    shape = tuple(value.tensor.shape)
    declared = var.shape
    fits = len(shape) == len(declared) and all(
        want in (-1, size) for size, want in zip(shape, declared, strict=True)
    )
    if isinstance(var, Parameter) and not fits:
        raise EnforceNotMet(
            f"{origin}: variable {var.name} has shape {list(declared)} in the program and "
            f"{list(shape)} in the file. Load with the program that saved it."
        )
    cell.value = value.tensor.to(device)
    cell.lod = value.lod()


def save_params(
    executor: Any,
    dirname: str | Path,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Saves all parameters; see `save_vars`."""
    save_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def save_persistables(
    executor: Any,
    dirname: str | Path,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Saves parameters, accumulators and whatever else is persistable; see `save_vars`."""
    save_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)


def load_params(
    executor: Any,
    dirname: str | Path,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Loads what `save_params` saved."""
    load_vars(executor, dirname, main_program, predicate=is_parameter, filename=filename)


def load_persistables(
    executor: Any,
    dirname: str | Path,
    main_program: Program | None = None,
    filename: str | None = None,
) -> None:
    """Loads what `save_persistables` saved."""
    load_vars(executor, dirname, main_program, predicate=is_persistable, filename=filename)
