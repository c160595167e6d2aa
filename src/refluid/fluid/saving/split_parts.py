"""Folders with one worker's part of what is split: each worker has a folder of its own."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from refluid.comm.world import ring
from refluid.core.errors import EnforceNotMet
from refluid.ir.variable import Parameter, Variable

# The file that says which part a folder has.
MARK = "__part__"


def _split(variables: Iterable[Variable]) -> Parameter | None:
    """The first of them that is split among workers."""
    return next((one for one in variables if isinstance(one, Parameter) and one.split_in), None)


def _part(param: Parameter) -> str:
    comm = ring(param.split_in)
    return f"part {comm.rank} of {comm.size}"


def mark(folder: Path, variables: Iterable[Variable]) -> None:
    """Notes whose part is saved in a folder. EnforceNotMet where another's is there."""
    param = _split(variables)
    if param is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with open(folder / MARK, "x", encoding="utf-8") as file:
            file.write(_part(param))
    except FileExistsError:
        require_own(folder, [param])


def require_own(folder: Path, variables: Iterable[Variable]) -> None:
    """EnforceNotMet where a folder has another part than these variables are."""
    path, param = folder / MARK, _split(variables)
    held = path.read_text(encoding="utf-8") if path.is_file() else ""
    own = "all of it" if param is None else _part(param)
    if held and held != own:
        raise EnforceNotMet(
            f"{folder} has {held} of layers that are split among workers, and this worker {own}: "
            "each worker needs a folder of its own"
        )


def require_whole(variables: Iterable[Variable]) -> None:
    """EnforceNotMet for a parameter of which this worker has a part only."""
    param = _split(variables)
    if param is not None:
        raise EnforceNotMet(
            f"{param.name} is split among {ring(param.split_in).size} workers, and no model "
            f"predicts by {_part(param)} alone: save_persistables saves the part of each"
        )
