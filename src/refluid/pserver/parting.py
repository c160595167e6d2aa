"""What each server is sent of a step's gradients, and parameters put together of its slices."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from refluid.comm.communicator import Exchanged
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.kernels.rows.dealing import DealtIds, PartialSums
from refluid.pserver.layout import DenseParameter, DenseSlice, JobLayout
from refluid.pserver.messages import Filling, NamedArray, as_array
from refluid.pserver.push_messages import IDS, ROWS

Deal = Callable[[str, Tensor], DealtIds]


@dataclass
class Parcel:
    """What one server is sent: arrays, and those that are made where they are sent from."""

    arrays: list[NamedArray] = field(default_factory=list)
    filled: list[tuple[str, Filling]] = field(default_factory=list)


def divided(
    layout: JobLayout, gradients: Mapping[str, Exchanged], deal: Deal, *, delta: bool
) -> list[Parcel]:
    """What each server is sent of gradients, by their names; of `delta` by the parameters'.

    deal: deals ids of a table. EnforceNotMet for what no server has a parameter for.
    """
    parts = [Parcel() for _ in layout.servers]
    dense, sparse = layout.dense_of, layout.sparse_of
    if delta:
        dense = {one.name: one for one in layout.dense}
        sparse = layout.tables
    for name, value in gradients.items():
        if name in dense:
            value = value.to_dense() if isinstance(value, SelectedRows) else value
            for part in dense[name].slices:
                rows = rows_of_slice(value, dense[name], part)
                parts[part.server].arrays.append((part.name, as_array(rows)))
        elif name in sparse:
            table = sparse[name].name
            if not isinstance(value, SelectedRows):
                raise EnforceNotMet(f"the gradient of table {table} must be rows, with is_sparse")
            _put_rows(layout, table, value, deal(table, value.index), parts)
        else:
            raise EnforceNotMet(f"no server has a parameter for {name!r}")
    return parts


def _put_rows(
    layout: JobLayout, table: str, value: SelectedRows, dealt: DealtIds, parts: Sequence[Parcel]
) -> None:
    shape = len(value.index), math.prod(value.value.shape[1:])
    rows = value.value.detach().reshape(shape).contiguous().numpy()
    # Those without any too: what is kept for the table as a whole goes on with each step.
    for server in layout.numbers if len(rows) else ():
        parts[server].arrays.append((IDS + table, dealt.ids(server)))
        parts[server].filled.append((ROWS + table, PartialSums(dealt, server, rows)))


def rows_of_slice(value: Tensor, param: DenseParameter, part: DenseSlice) -> Tensor:
    """What a slice has of a value for the parameter. EnforceNotMet where the value doesn't fit."""
    if value.shape != param.shape:
        raise EnforceNotMet(f"{param.name} is {param.shape}, and its gradient {tuple(value.shape)}")
    return value if len(param.slices) == 1 else value[part.begin : part.end]


def whole_parameters(
    wanted: Sequence[DenseParameter], answers: Iterable[Mapping[str, Tensor]]
) -> dict[str, Tensor]:
    """Parameters by name, of the slices that servers answered with."""
    found = {name: value for one in answers for name, value in one.items()}
    return {one.name: _whole(one, found) for one in wanted}


def _whole(param: DenseParameter, found: dict[str, Tensor]) -> Tensor:
    missing = [one.name for one in param.slices if one.name not in found]
    if missing:
        raise EnforceNotMet(f"no server has {missing[0]}, a slice of parameter {param.name}")
    parts = [found[one.name] for one in param.slices]
    return parts[0] if len(parts) == 1 else torch.cat(parts)
