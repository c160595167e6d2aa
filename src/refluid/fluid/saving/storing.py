"""Loaded values are put into the scope: all of them, or none where one doesn't fit its variable."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from refluid.core.dtypes import VarType, as_dtype, dtype_name
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope, global_scope
from refluid.core.values import LoDTensor, SelectedRows
from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.ir.variable import Parameter, Variable

_log = logging.getLogger("refluid")


@dataclass(frozen=True)
class Loaded:
    """A value, the variable that it is for, and the file it is from."""

    var: Variable
    value: LoDTensor | SelectedRows
    origin: object


def store(loaded: Iterable[Loaded], device: Any, scope: Scope | None = None) -> None:
    """Puts values into a scope, the current one without `scope`, on a device.

    Raises EnforceNotMet where shape or element type are not those that the program declares; the
    scope is then as before. -1 is any size, and a variable of no declared dimensions takes any
    shape, as does one that is no parameter and that forward or backward operators write: those
    give it the shape that they need, such as `auc` its buckets.
    """
    kept = list(loaded)
    for one in kept:
        _check(one)
    kept = _without_served_tables(kept)
    target = global_scope() if scope is None else scope
    for one in kept:
        cell = target.find_var(one.var.name) or target.var(one.var.name)
        if isinstance(one.value, SelectedRows):
            cell.value, cell.lod = one.value, []
        else:
            cell.value, cell.lod = one.value.tensor.to(device), one.value.lod()


def _without_served_tables(loaded: Sequence[Loaded]) -> list[Loaded]:
    """What is stored: not the tables of a trainer's program, which servers have.

    Warns of these, and of parameters: servers don't learn of them.
    """
    lost, left = list[str](), list[Loaded]()
    for one in loaded:
        name, servers = one.var.name, one.var.block.program._servers
        held = servers is not None and name in servers.held
        lost += [name] * held
        if not (held and name in servers.split.layout.tables):
            left.append(one)
    if lost:
        _log.warning(
            "%s: loaded into this trainer alone. Servers have %s, and the next step takes theirs. "
            "Load before they begin (fluid.io.load_persistables for a server's startup program, "
            "fleet.init_server(folder)) or from a trainer (fleet.load_model(folder))",
            few(sorted(lost)),
            "them" if len(lost) > 1 else "it",
        )
    return left


def _check(one: Loaded) -> None:
    var, value = one.var, one.value
    tensor: torch.Tensor = value.value if isinstance(value, SelectedRows) else value.tensor
    declared, found = list(var.shape), list(tensor.shape)
    if var.type == VarType.SELECTED_ROWS:  # which may hold any number of rows
        declared[:1] = [-1]
    kind = as_dtype(tensor.dtype)
    if declared and not _fits(declared, found):
        _refuse(one, f"shape {declared}", f"shape {found}")
    if var.has_element_type() and var.dtype != kind:
        _refuse(one, f"type {dtype_name(var.dtype)}", f"type {dtype_name(kind)}")


def _fits(declared: list[int], found: list[int]) -> bool:
    return len(declared) == len(found) and all(
        want in (-1, size) for size, want in zip(found, declared, strict=True)
    )


def _refuse(one: Loaded, expected: str, found: str) -> None:
    if not isinstance(one.var, Parameter) and _is_shaped_by_operators(one.var):
        return
    raise EnforceNotMet(
        f"{one.origin}: variable {one.var.name} has {expected} in the program and {found} in the "
        "file. Load with the program that saved it; nothing was loaded"
    )


def _is_shaped_by_operators(var: Variable) -> bool:
    blocks = var.block.program.blocks
    return any(_writes(op, var.name) for block in blocks for op in block.ops)


def _writes(op: Operator, name: str) -> bool:
    """Whether the operator writes it, other than as an optimizer or only in training."""
    keeps = op.role & (OpRole.OPTIMIZE | OpRole.LR_SCHED)
    idle = op.attrs.get("is_test") and name in op.input_arg_names
    return not keeps and not idle and name in op.output_arg_names


def few(names: Sequence[str]) -> str:
    """The names, or the first eight and how many there are."""
    shown = ", ".join(names[:8])
    return shown if len(names) <= 8 else f"{shown} and {len(names) - 8} more"
