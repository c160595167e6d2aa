"""Operators on `SelectedRows`: merging, splitting, and tables that are spread by row number."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.kernels.rows.draws import RowDraws
from refluid.ops.comm.servers import flat_ids
from refluid.ops.infer import infer_like, no_inference
from refluid.ops.registry import GradOp, operator
from refluid.ops.signature import Long, Longs, Random
from refluid.ops.sparse.sparse import same_kind


@operator(
    "merge_selected_rows",
    outputs="Out",
    uses=None,
    infer=same_kind(infer_like("Out", "X")),
    rows_only=True,
)
def merge_selected_rows(X: SelectedRows) -> SelectedRows:
    """X with each row once, in ascending order; values of equal rows added. A tensor stays."""
    return X.merged() if isinstance(X, SelectedRows) else X


@operator(
    "get_tensor_from_selected_rows",
    outputs="Out",
    uses=None,
    infer=infer_like("Out", "X"),
    rows_only=True,
)
def get_tensor_from_selected_rows(X: SelectedRows) -> Tensor:
    """The values of X's rows, as many rows as X holds; a tensor stays."""
    return X.value if isinstance(X, SelectedRows) else X


def _sum_of_parts(op: Operator) -> list[GradOp]:
    """The gradients of the parts, added up."""
    parts = [name + GRAD for name in op.output("Out")]
    return [GradOp("sum", {"X": parts}, {"Out": [name + GRAD for name in op.input("X")]}, {})]


@operator("split_selected_rows", outputs="Out*", maker=_sum_of_parts, infer=same_kind(no_inference))
def split_selected_rows(X: SelectedRows, *, height_sections: Longs = ()) -> list[SelectedRows]:
    """Out[i] holds the rows of section i, numbered from its start.

    height_sections: how many rows of the whole tensor each section takes.
    """
    ends = torch.tensor(list(height_sections), dtype=torch.int64).cumsum(0).to(X.index.device)
    owner = torch.bucketize(X.index, ends, right=True)
    parts = []
    start = 0
    for number, height in enumerate(height_sections):
        chosen = (owner == number).nonzero().reshape(-1)
        parts.append(SelectedRows(X.index[chosen] - start, height, X.value[chosen]))
        start += height
    return parts


@operator("split_ids", outputs="Out*", uses=None, lod="", infer=no_inference)
def split_ids(Ids: list[Tensor | SelectedRows], *, counts: Sequence[int]) -> list[Any]:
    """Of n outputs Out[i] gets the ids with remainder i, each once and ascending, (k, 1).

    Of `SelectedRows` the rows are split, with their values.
    """
    parts, first = counts[0], Ids[0]
    if isinstance(first, SelectedRows):
        chosen = [(first.index % parts == part).nonzero().reshape(-1) for part in range(parts)]
        return [SelectedRows(first.index[one], first.height(), first.value[one]) for one in chosen]
    every = torch.unique(torch.cat([one.reshape(-1) for one in Ids if isinstance(one, Tensor)]))
    return [every[every % parts == part].reshape(-1, 1) for part in range(parts)]


@operator("merge_ids", outputs="Out*", uses=None, lod="", infer=no_inference)
def merge_ids(Ids: list[Tensor], Rows: list[Tensor], X: list[Tensor]) -> list[Tensor]:
    """Undoes `split_ids`: for each id of each Ids the row of the X whose Rows hold that id."""
    rows = torch.cat([one.reshape(-1) for one in Rows])
    values = torch.cat(X)
    order = torch.argsort(rows)
    found = []
    for ids in Ids:
        wanted = ids.reshape(-1)
        place = torch.searchsorted(rows[order], wanted).clamp(max=max(rows.numel() - 1, 0))
        if wanted.numel() and not bool((rows[order][place] == wanted).all()):
            raise EnforceNotMet("merge_ids: an id of Ids is in none of Rows")
        found.append(values[order[place]])
    return found


_LOOKUP: dict[str, Any] = {"uses": None, "lod": "Ids", "infer": no_inference, "rows": {"W": "Ids"}}


@operator("lookup_sparse_table", outputs="Out", **_LOOKUP)
def lookup_sparse_table(
    W: SelectedRows,
    Ids: Tensor,
    *,
    padding_idx: Long = -1,
    auto_grown_table: bool = True,
    is_test: bool = False,
    random: Random,
) -> Tensor:
    """The values of the rows Ids (n, 1) of a table that holds only the rows it has met.

    An unknown id gets a new row of small random values; in test, or where the table may not
    grow, it reads as zeros. padding_idx always reads as zeros.
    """
    ids = Ids.reshape(-1)
    places = W.find(ids)
    if auto_grown_table and not is_test and bool((places < 0).any()):
        new = torch.unique(ids[places < 0])
        fresh = W.value.new_empty((new.numel(), *W.value.shape[1:]))
        fresh.uniform_(-0.1, 0.1, generator=random(0))
        W.set_rows(torch.cat([W.index, new]))
        W.get_tensor().tensor = torch.cat([W.value, fresh])
        places = W.find(ids)
    return _rows_at(W, ids, places, padding_idx)


@operator("lookup_rows", outputs="Out", **_LOOKUP)
def lookup_rows(
    W: SelectedRows,
    Ids: Tensor,
    *,
    padding_idx: Long = -1,
    is_distributed: bool = True,
    lookup_table_version: str = "lookup_table",
    first_rows: str,
) -> Tensor:
    """The values of the rows Ids (.., 1) of a table of which only the rows that were trained exist.

    Others read as what they would begin as, of which first_rows tells (`RowDraws` as JSON);
    padding_idx reads as zeros. lookup_table_version: `lookup_table_v2` has Ids (..).
    is_distributed: servers that have the table may be asked instead.
    """
    ids = flat_ids(Ids, lookup_table_version)
    wanted = ids.reshape(-1)
    draws = RowDraws(**json.loads(first_rows))
    out = _rows_at(W, wanted, W.find(wanted), padding_idx, draws)
    return out.reshape(*ids.shape, *out.shape[1:])


def _rows_at(
    table: SelectedRows, ids: Tensor, places: Tensor, padding: int, draws: RowDraws | None = None
) -> Tensor:
    """The rows of ids at their places in a table; what begins as draws say, or zeros, at -1."""
    out = table.value.new_zeros((ids.numel(), *table.value.shape[1:]))
    absent = (places < 0).nonzero().view(-1)
    if not absent.numel():
        torch.index_select(table.value, 0, places, out=out)
    else:
        there = (places >= 0).nonzero().view(-1)
        out[there] = table.value[places[there]]
        if draws is not None:
            begun = torch.empty((absent.numel(), *out.shape[1:]), dtype=out.dtype)
            draws.fill(ids[absent].cpu(), begun)
            out[absent] = begun.to(out.device)
    if padding != -1:
        out[ids == padding] = 0.0
    return out
