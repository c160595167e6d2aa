"""A checkpoint written by all trainers, and read by all."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from torch import Tensor

from refluid.collective.saving import folders
from refluid.collective.saving.shares import Shares, content, held, shares_of, write_cell
from refluid.comm import Communicator
from refluid.comm.values import gather_values
from refluid.core.errors import EnforceNotMet
from refluid.core.files import decode_file, decode_selected_rows_file
from refluid.core.folders import file_of, file_to_write
from refluid.core.scope import Cell, Scope
from refluid.core.selected_rows import SelectedRows
from refluid.core.writing import write_files
from refluid.ir.program import Program

# In a checkpoint: a file for each variable, as Fluid has them; and what each trainer has besides.
PERSISTABLES, _STATE = "persistables", "state.json"


def trainers_folder(folder: Path, rank: int) -> Path:
    """What trainer `rank` has besides."""
    return folder / f"trainer.{rank}"


def write(
    comm: Communicator,
    root: Path,
    keep: int,
    program: Program,
    scope: Scope,
    owners: Mapping[str, int],
    state: Mapping[str, Any],
    besides: Mapping[str, Any],
) -> Path:
    """Writes the next checkpoint; all trainers must call this.

    besides: what the manifest says too. Raises EnforceNotMet at all of them where one can't
    write; the last whole one is as before.
    """
    cells = held(program, scope)
    told = {name: content(cell) for name, cell in cells.items()}
    last = max(folders.numbers(root), default=-1)
    everyone = gather_values(comm, [told, last])
    contents, number = [one for one, _ in everyone], everyone[0][1] + 1
    shares = shares_of(contents, owners)
    begun = root / f"{folders.folder_of(root, number).name}.begun"
    if comm.rank == 0:
        _all_well(comm, partial(folders.begin, root, number))
    else:
        _all_well(comm, lambda: None)
    files = partial(_write_share, begun, comm.rank, shares, cells, state)
    try:
        _all_well(comm, files)
    except EnforceNotMet:
        if comm.rank == 0:
            folders.give_up(begun)
        raise
    manifest = {
        "trainers": comm.size,
        "files": {name: digest for name, (_, digest) in shares.writers.items()},
        "own_files": [
            {name: one[name][0] for name in shares.own if name in one} for one in contents
        ],
        **besides,
    }
    _all_well(comm, partial(folders.finish, begun, manifest, keep) if comm.rank == 0 else None)
    return folders.folder_of(root, number)


def _all_well(comm: Communicator, does: Any) -> None:
    """Does something; EnforceNotMet at all trainers where one can't."""
    said = ""
    try:
        if does is not None:
            does()
    except (EnforceNotMet, OSError) as error:
        said = str(error) or type(error).__name__
    failed = {rank: one for rank, one in enumerate(gather_values(comm, said)) if one}
    if failed:
        rank, reason = next(iter(failed.items()))
        raise EnforceNotMet(f"no checkpoint was written: trainer {rank}: {reason}")


def _write_share(
    begun: Path, rank: int, shares: Shares, cells: Mapping[str, Cell], state: Mapping[str, Any]
) -> None:
    if not begun.is_dir():
        raise EnforceNotMet(
            f"{begun}, which trainer 0 has made, isn't there: all trainers must see the same folder"
        )
    own, common = trainers_folder(begun, rank), begun / PERSISTABLES
    common.mkdir(exist_ok=True)
    own.mkdir()
    mine = [name for name, (writer, _) in shares.writers.items() if writer == rank]
    files = [(file_to_write(common, name), partial(write_cell, cells[name])) for name in mine]
    apart = [name for name in shares.own if name in cells]
    files += [(file_to_write(own, name), partial(write_cell, cells[name])) for name in apart]
    write_files(files)
    (own / _STATE).write_text(json.dumps(state), encoding="utf-8")


def read(
    comm: Communicator, folder: Path, program: Program, scope: Scope
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Loads the variables; what is said of the checkpoint, and what this trainer had besides.

    Where another number of trainers saved, what trainer 0 had. EnforceNotMet where a file is
    damaged, missing, or of another shape than the program's variable; nothing is loaded then.
    """
    manifest = folders.manifest_of(folder)
    same = manifest["trainers"] == comm.size
    own = trainers_folder(folder, comm.rank if same else 0)
    names = [var.name for var in program.list_vars() if var.persistable]
    found: dict[str, Any] = {}
    for name in sorted(set(names) & set(manifest["files"])):
        path, digest = _file(folder, manifest, comm, name)
        _check(path, digest)
        found[name] = _decoded(path, program, name)
        _require_fit(scope.find_var(name), found[name], path)
    for name, value in found.items():
        _put(scope.var(name) if scope.find_var(name) is None else scope.find_var(name), value)
    scope.apart = frozenset().union(*manifest["own_files"]) if same else frozenset()
    try:
        return manifest, json.loads((own / _STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EnforceNotMet(f"{own / _STATE} is damaged: {error}") from error


def _file(
    folder: Path, manifest: Mapping[str, Any], comm: Communicator, name: str
) -> tuple[Path, str]:
    """The file of a variable, and its digest: of this trainer's own value, or of one that had the
    same part; else of what all have alike."""
    own_files, parts = manifest["own_files"], manifest.get("parts", {}).get(name)
    ranks = [comm.rank] if len(own_files) == comm.size else []
    if parts is not None:
        ranks += range(comm.rank % parts, len(own_files), parts)
    for rank in ranks:
        if name in own_files[rank]:
            return file_of(trainers_folder(folder, rank), name), own_files[rank][name]
    return file_of(folder / PERSISTABLES, name), manifest["files"][name]


def _check(path: Path, digest: str) -> None:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise EnforceNotMet(f"{path} of the checkpoint can't be read: {error}") from error
    if hashlib.sha256(data).hexdigest() != digest:
        raise EnforceNotMet(f"{path} of the checkpoint is damaged: remove that checkpoint's folder")


def _decoded(path: Path, program: Program, name: str) -> Any:
    from refluid.core.dtypes import VarType

    var = next(one for one in program.list_vars() if one.name == name)
    sparse = var.type == VarType.SELECTED_ROWS
    return decode_selected_rows_file(path) if sparse else decode_file(path)


def _require_fit(cell: Cell | None, value: Any, path: Path) -> None:
    """What the startup program has made says what fits."""
    present = None if cell is None else cell.value
    if isinstance(present, Tensor) and not isinstance(value, SelectedRows):
        loaded = value.tensor
        if (present.shape, present.dtype) != (loaded.shape, loaded.dtype):
            raise EnforceNotMet(
                f"{path} is {loaded.dtype} {list(loaded.shape)}, the program's variable "
                f"{present.dtype} {list(present.shape)}: nothing was loaded"
            )


def _put(cell: Any, value: Any) -> None:
    if isinstance(value, SelectedRows):
        cell.value, cell.lod = value, []
        return
    device = cell.value.device if isinstance(cell.value, Tensor) else "cpu"
    cell.value, cell.lod = value.tensor.to(device), value.lod()


def last_of(comm: Communicator, root: Path) -> Path | None:
    """The last whole checkpoint, as trainer 0 sees it."""
    number: Sequence[Any] = gather_values(comm, max(folders.numbers(root), default=-1))
    return None if number[0] < 0 else folders.folder_of(root, number[0])
