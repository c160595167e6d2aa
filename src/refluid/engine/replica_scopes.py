"""Variables of replicas: copies of those of the user's scope."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import torch

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.core.selected_rows import SelectedRows
from refluid.ir.program import Program


def replica_scopes(
    scope: Scope, program: Program, places: Sequence[Place], shared: Iterable[str]
) -> list[Scope]:
    """One scope per replica; those of replicas 1, 2, ... hold copies of the persistables.

    What has no value yet and the program writes, as a metric's state, each has for itself.
    shared: variables of which there is one for all.
    """
    scopes = [scope]
    left_out, written = set(shared), _written(program)
    for place in places[1:]:
        copy = Scope(scope)
        for var in program.list_vars():
            if not var.persistable or var.name in left_out:
                continue
            cell = scope.find_var(var.name)
            if cell is not None and cell.value is not None:
                own = copy.var(var.name)
                own.value, own.lod = _copied(cell.value, place.device), cell.lod
            elif var.name in written:
                copy.var(var.name)
        scopes.append(copy)
    return scopes


def updates_variables(program: Program) -> bool:
    """Whether the program writes variables that outlive a run."""
    return not _written(program).isdisjoint(
        var.name for var in program.list_vars() if var.persistable
    )


def _written(program: Program) -> set[str]:
    ops = (op for block in program.blocks for op in block.ops)
    return {name for op in ops for name in op.output_arg_names}


def _copied(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device, copy=True)
    if isinstance(value, SelectedRows):
        return SelectedRows(value.index.clone(), value.height(), value.value.to(device, copy=True))
    return value
