"""Rows of a table chosen by ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.core.dtypes import VarType, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.ops.reading import integer
from refluid.ops.registry import gradient, operator
from refluid.ops.signature import Long, Longs

aten = torch.ops.aten
# A table has so many times the rows that are few of it.
_FEW = 2


def _define(name: str, strip: bool, extra: dict[str, Any]) -> None:
    """`lookup_table` takes ids (..., 1) and `lookup_table_v2` ids (...)."""

    def ids_of(Ids: Tensor) -> Tensor:
        return _without_last(Ids, "embedding") if strip else Ids

    def forward(
        W: Tensor,
        Ids: Tensor,
        *,
        is_sparse: bool = False,
        is_distributed: bool = False,
        padding_idx: Long = -1,
        remote_prefetch: bool = False,
        trainer_id: int = 0,
        height_sections: Longs = (),
        epmap: Sequence[str] = (),
        table_names: Sequence[str] = (),
    ) -> Tensor:
        ids = ids_of(Ids)
        out = torch.embedding(W, ids)
        if padding_idx == -1:
            return out
        return out.masked_fill_((ids == padding_idx).unsqueeze(-1), 0.0)

    def backward(
        W: Tensor,
        Ids: Tensor,
        d_Out: Tensor,
        *,
        is_sparse: bool = False,
        padding_idx: Long = -1,
        as_dense: bool = False,
        if_few: bool = False,
    ) -> Tensor | SelectedRows:
        ids = ids_of(Ids)
        if is_sparse and not (if_few and ids.numel() * _FEW > W.shape[0]):
            return _rows(W, ids, d_Out, padding_idx if as_dense else -1)
        grad: Tensor = aten.embedding_dense_backward(d_Out, ids, W.shape[0], padding_idx, False)
        return grad

    what = "Ids (..., 1)" if strip else "Ids (...)"
    forward.__doc__ = f"Rows of W (rows, width) named by the int64 {what}; zeros for padding_idx."
    backward.__doc__ = (
        "The gradient rows added up at their ids, none for padding_idx; with is_sparse as they "
        "are, with the ids they belong to: there those of padding_idx count too, as in Fluid, "
        "but with as_dense, which passes set on gradients that were dense. if_few: a dense "
        "table where they are many all the same."
    )
    _finish(name, forward, backward, extra)


def _without_last(ids: Tensor, layer: str) -> Tensor:
    """Ids (..) of ids (.., 1); EnforceNotMet of others, where a reshape would only be refused."""
    if ids.shape[-1:] != (1,):
        raise EnforceNotMet(
            f"the last size of the ids has to be 1, but the sizes end in {list(ids.shape[-1:])}"
            f": reshape them to (.., 1), or use fluid.{layer}, which takes ids (..)"
        )
    return ids.reshape(ids.shape[:-1])


def _rows(W: Tensor, ids: Tensor, grad: Tensor, dropped: int) -> SelectedRows:
    rows, values = ids.reshape(-1), grad.reshape(-1, *W.shape[1:])
    if dropped != -1:
        kept = (rows != dropped).nonzero().reshape(-1)
        rows, values = rows[kept], values[kept]
    return SelectedRows(rows, W.shape[0], values)


def _finish(
    name: str, forward: Callable[..., Tensor], backward: Callable[..., Any], extra: Any
) -> None:
    forward.__name__, backward.__name__ = name, f"{name}_grad"
    flags: dict[str, Any] = {"rows": {"W": "Ids"}, "layer": "embedding"}
    uses = {"uses": "W Ids", "differentiable": "W", "lod": "Ids", "extra": extra}
    sums: dict[str, Any] = {"sums_rows": {"W": "Ids"}}
    operator(
        name, outputs="Out", gradient_lod="none", by_autograd="always", **sums, **uses, **flags
    )(forward)
    gradient(name, views={"d_W": "d_Out"}, gives_rows=True, **flags)(backward)


_define("lookup_table", True, {"grad_inplace": False})
_define("lookup_table_v2", False, {})


def _one_hot(ids: Tensor, depth: int, dtype: int, lenient: bool) -> Tensor:
    kind = to_torch(VarType(dtype))
    if ids.is_meta:
        return ids.new_empty((*ids.shape, depth), dtype=kind)
    real = (ids >= 0) & (ids < depth)
    if not lenient and not bool(real.all()):
        raise EnforceNotMet(
            f"one_hot: an index is outside [0, {depth}); give a larger depth, or allow it with "
            "allow_out_of_range=True (the row is then zero)"
        )
    hot = torch.zeros((*ids.shape, depth), dtype=kind, device=ids.device)
    place = ids.long().clamp(0, depth - 1).unsqueeze(-1)
    return hot.scatter_(-1, place, real.to(kind).unsqueeze(-1))


def _define_one_hot(name: str, strip: bool) -> None:
    def body(
        X: Tensor,
        depth_tensor: Tensor | None = None,
        *,
        depth: int = -1,
        dtype: int = 5,
        allow_out_of_range: bool = False,
    ) -> Tensor:
        ids = _without_last(X, "one_hot") if strip else X
        size = depth if depth_tensor is None else integer(depth_tensor)
        return _one_hot(ids, size, dtype, allow_out_of_range)

    what = "X (..., 1)" if strip else "X (...)"
    body.__name__ = name
    body.__doc__ = f"(..., depth): 1 at the position that the integers {what} name, else 0."
    operator(name, outputs="Out", uses=None)(body)


_define_one_hot("one_hot", True)
_define_one_hot("one_hot_v2", False)
