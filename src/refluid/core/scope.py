"""Scopes: values by variable name, with a parent to look in next."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from refluid.core.offsets import Levels, as_levels, as_lod
from refluid.core.values import Lod, LoDTensor, LoDTensorArray, SelectedRows


class Cell:
    """One variable of a scope: holds a torch tensor, `SelectedRows`, a tensor array, or None."""

    __slots__ = ("lod", "name", "value")

    def __init__(self, name: str) -> None:
        self.name = name
        self.value: Any = None
        self.lod: Lod = []

    def get_tensor(self) -> LoDTensor:
        """The dense value, as a `LoDTensor` that reads and writes this variable."""
        return CellTensor(self)

    def get_selected_rows(self) -> SelectedRows:
        """The sparse value; an empty one is put where there is none."""
        if not isinstance(self.value, SelectedRows):
            self.value = SelectedRows()
        return self.value

    def get_lod_tensor_array(self) -> LoDTensorArray:
        """The tensor array; an empty one is put where there is none."""
        if not isinstance(self.value, LoDTensorArray):
            self.value = LoDTensorArray()
        return self.value

    def is_initialized(self) -> bool:
        return self.value is not None


class CellTensor(LoDTensor):
    """The tensor of a scope variable: what is set here is what the next run reads."""

    __slots__ = ("_cell",)

    def __init__(self, cell: Cell) -> None:
        self._cell = cell

    @property
    def _tensor(self) -> torch.Tensor | None:
        value: torch.Tensor | None = self._cell.value
        return value

    @_tensor.setter
    def _tensor(self, value: torch.Tensor | None) -> None:
        self._cell.value = value

    @property
    def levels(self) -> Levels:
        return as_levels(self._cell.lod)

    @levels.setter
    def levels(self, levels: Levels) -> None:
        self._cell.lod = as_lod(levels)


class Scope:
    """Variables by name. `var` makes one here; `find_var` also looks in enclosing scopes.

    apart: variables of which each trainer of a job has a value of its own. borrow: where other
    trainers own parameters, `with borrow(program)` has those that a program reads. served: where
    servers have tables, what a trainer knows of these (`pserver/tables_elsewhere.py`).
    """

    def __init__(self, parent: Scope | None = None) -> None:
        self.parent = parent
        self.kids: list[Scope] = []
        self.erasures = 0
        self.apart: frozenset[str] = frozenset()
        self.borrow: Callable[[Any], AbstractContextManager[None]] | None = None
        self.served: Any = None if parent is None else parent.served
        self._cells: dict[str, Cell] = {}

    def var(self, name: str) -> Cell:
        """The variable of this scope, made when missing."""
        cell = self._cells.get(name)
        if cell is None:
            cell = self._cells[name] = Cell(name)
        return cell

    def find_var(self, name: str) -> Cell | None:
        """The variable here or in the nearest enclosing scope, else None."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope._cells:
                return scope._cells[name]
            scope = scope.parent
        return None

    def new_scope(self) -> Scope:
        """A scope inside this one."""
        kid = Scope(self)
        self.kids.append(kid)
        return kid

    def drop_kids(self) -> None:
        """Forgets all scopes inside this one."""
        self.kids.clear()

    def local_var_names(self) -> list[str]:
        """Names of the variables of this very scope."""
        return list(self._cells)

    def erase(self, names: list[str]) -> None:
        """Forgets variables of this scope."""
        for name in names:
            self._cells.pop(name, None)
        self.erasures += 1

    _remove_from_pool = drop_kids


_global = Scope()
_current = _global


def global_scope() -> Scope:
    """The scope in use: the process-wide one unless within `scope_guard`."""
    return _current


def checked(scope: Any) -> Scope:
    """The scope that a script passes; TypeError for anything else."""
    if not isinstance(scope, Scope):
        raise TypeError(
            f"a scope is a fluid.Scope(), or fluid.global_scope(), and not {type(scope).__name__}"
        )
    return scope


@contextmanager
def scope_guard(scope: Scope) -> Iterator[None]:
    """Executors run within the block use this scope by default; TypeError for anything else."""
    global _current
    former, _current = _current, checked(scope)
    try:
        yield
    finally:
        _current = former
