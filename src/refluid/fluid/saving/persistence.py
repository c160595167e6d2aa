"""`save_vars`, `save_params`, `save_persistables` and their `load_` twins: Fluid's tensor files.

One file per variable, or all in one file (`filename=`), ordered by name, byte for byte as Fluid
1.8 writes them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import torch

from refluid.comm.world import ownership_hint
from refluid.core.codec import write_lod_tensor, write_selected_rows
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.core.files import (
    decode_combined,
    decode_combined_file,
    decode_file,
    decode_selected_rows_file,
)
from refluid.core.folders import file_of, file_to_write
from refluid.core.scope import Cell, global_scope
from refluid.core.values import LoDTensor, SelectedRows
from refluid.core.writing import Write, write_files
from refluid.fluid.saving.programs import program_of, program_to_save
from refluid.fluid.saving.served import as_trained_alone
from refluid.fluid.saving.split_parts import mark, require_own
from refluid.fluid.saving.storing import Loaded, store
from refluid.ir.program import Program
from refluid.ir.variable import Parameter, Variable

# The index of what `fleet.save_model` wrote.
SHARDS = "model.safetensors.index.json"
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


def _chosen(
    program: Any, variables: Iterable[Variable | str] | None, predicate: Predicate | None
) -> list[Variable]:
    program = program_of(program)
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
            f"variable, in the scope that you save from.{ownership_hint()}"
        )
    if not isinstance(cell.value, torch.Tensor | SelectedRows):
        raise EnforceNotMet(
            f"The variable {name} to be saved is a {type(cell.value).__name__}. Only tensors and "
            "selected rows have a file format; make it not persistable, or don't save it"
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
    Raises EnforceNotMet for a variable without value, for one whose name leads out of the folder
    and for files that can't be written; all files are then as before.
    """
    whole = program_to_save(main_program)
    if vars is not None:
        chosen = _chosen(whole, vars, predicate)
        vars = [one.name for one in chosen] if main_program is not None else chosen
    with as_trained_alone(whole) as program:
        found = _chosen(program, vars, predicate)
        mark(Path(dirname), found)
        write_files(writing(Path(dirname), found, filename))


def writing(
    folder: Path, chosen: Iterable[Variable], filename: str | None
) -> list[tuple[Path, Write]]:
    """Files in `folder`, and what writes variables of the current scope there; see `save_vars`."""
    cells = {var.name: initialized_cell(var.name) for var in chosen}
    if filename is not None:
        return [(folder / filename, partial(write_cells, [cells[name] for name in sorted(cells)]))]
    return [
        (file_to_write(folder, name), partial(write_cells, [cell])) for name, cell in cells.items()
    ]


def write_cells(cells: Sequence[Cell], file: BinaryIO) -> None:
    for cell in cells:
        if isinstance(cell.value, SelectedRows):
            write_selected_rows(file, cell.value)
        else:
            write_lod_tensor(file, cell.value, cell.lod)


def load_vars(
    executor: Any,
    dirname: str | Path | None,
    main_program: Program | None = None,
    vars: Sequence[Variable | str] | None = None,
    predicate: Predicate | None = None,
    filename: str | bytes | None = None,
) -> None:
    """Loads variables saved by `save_vars` into the current scope, or by `fleet.save_model`.

    dirname: None where `filename` is the content of a file that has all. Raises EnforceNotMet for
    a missing, truncated or damaged file, for a value whose shape or element type is not the
    variable's, and for a variable whose name leads out of the folder; the scope is then as before.
    Tables and slices of a server's program (DistributeTranspiler) are loaded as it begins.
    """
    chosen = _chosen(main_program, vars, predicate)
    device = getattr(getattr(executor, "place", None), "device", "cpu")
    if isinstance(filename, bytes):
        names, origin = sorted(var.name for var in chosen), "the bytes given"
        values = decode_combined(filename, names, origin, rows_of(chosen))
        store([Loaded(var, values[var.name], origin) for var in chosen], device)
        return
    if dirname is None:
        raise ValueError("without a folder the content of a file is needed, as bytes")
    folder = Path(dirname)
    before = program_of(main_program)._saved_before
    if before is not None and vars is None and filename is None:
        chosen = before.take(folder, chosen)
    require_own(folder, chosen)
    if filename is not None:
        path = folder / filename
        values = decode_combined_file(path, sorted(var.name for var in chosen), rows_of(chosen))
        store([Loaded(var, values[var.name], path) for var in chosen], device)
    elif (folder / SHARDS).is_file():
        store(_of_shards(folder, chosen), device)
    else:
        store([read_variable(file_of(folder, var.name), var) for var in chosen], device)


def _of_shards(folder: Path, chosen: Iterable[Variable]) -> list[Loaded]:
    """Values that servers' tables and parameters had."""
    from refluid.pserver.saved_files import ShardedTables  # most folders have none

    saved = ShardedTables(folder)
    found = [(var, saved.whole(var.name)) for var in chosen]
    return [
        Loaded(var, one if isinstance(one, SelectedRows) else LoDTensor(one), folder / SHARDS)
        for var, one in found
    ]


def rows_of(variables: Iterable[Variable]) -> set[str]:
    """The names of those whose files hold rows."""
    return {var.name for var in variables if var.type == VarType.SELECTED_ROWS}


def read_variable(path: Path, var: Variable) -> Loaded:
    """The value of a variable from a file of its own."""
    sparse = bool(rows_of([var]))
    return Loaded(var, decode_selected_rows_file(path) if sparse else decode_file(path), path)


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
