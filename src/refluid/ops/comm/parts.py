"""Operators of layers that are split among the members of a group.

ring_id: the group's number (`comm/world.py`); 0 for all replicas. What one gives back in a backward
pass is what another does in a forward pass: identity and sum, part and whole.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.comm import Communicator
from refluid.comm.world import ring
from refluid.core.errors import EnforceNotMet
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.definition import Maker
from refluid.ops.infer import infer_like
from refluid.ops.registry import GradOp, gradient, operator
from refluid.ops.signature import Long

_LIKE_X = infer_like("Out", "X")
_STREAM = {"use_calc_stream": True, "use_model_parallel": True}
_RANK = {**_STREAM, "rank": 0}


def _members(comm: Communicator, ring_id: int) -> Communicator:
    return ring(ring_id) if ring_id else comm


def _gives_back(type: str) -> Maker:
    """The gradient is what operator `type` makes of that of Out."""

    def make(op: Operator) -> list[GradOp]:
        taken = [name + GRAD for name in op.output("Out")]
        made = [name + GRAD for name in op.input("X")]
        return [GradOp(type, {"X": taken}, {"Out": made})]

    return make


@operator(
    "c_identity",
    outputs="Out",
    uses=None,
    maker=_gives_back("mp_allreduce_sum"),
    infer=_LIKE_X,
    extra={**_STREAM, "ring_id": 0},
    views={"Out": "X"},
)
def c_identity(X: Tensor) -> Tensor:
    """X, which all members have; its gradient is the sum of theirs."""
    return X


@operator(
    "mp_allreduce_sum",
    outputs="Out",
    uses=None,
    maker=_gives_back("c_identity"),
    infer=_LIKE_X,
    extra=_STREAM,
)
def mp_allreduce_sum(X: Tensor, *, comm: Communicator, ring_id: int = 0) -> Tensor:
    """The sum of X over all members, whose gradient they have in common."""
    out = X.clone(memory_format=torch.contiguous_format)
    _members(comm, ring_id).all_reduce([out])
    return out


@operator("c_split", outputs="Out", uses=None, maker=_gives_back("c_concat"), extra=_RANK)
def c_split(X: Tensor, *, comm: Communicator, nranks: int = 1, ring_id: int = 0) -> Tensor:
    """This member's part of X, which all have, along the last dimension."""
    size = X.shape[-1]
    if size % nranks:
        raise EnforceNotMet(f"c_split: a last dimension of {size} has no {nranks} equal parts")
    own = 0 if X.is_meta else _members(comm, ring_id).rank
    return X.narrow(-1, own * (size // nranks), size // nranks).clone()


@operator("c_concat", outputs="Out", uses=None, maker=_gives_back("c_split"), extra=_RANK)
def c_concat(X: Tensor, *, comm: Communicator, nranks: int = 1, ring_id: int = 0) -> Tensor:
    """The X of all members beside each other along the last dimension."""
    if X.is_meta:
        return torch.cat([X] * nranks, -1)
    found = _members(comm, ring_id).all_gather(X.contiguous())
    return torch.cat([part for part in found if isinstance(part, Tensor)], -1)


@operator(
    "c_embedding",
    outputs="Out",
    uses="W Ids",
    differentiable="W",
    lod="Ids",
    rows={"W": "Ids"},
)
def c_embedding(W: Tensor, Ids: Tensor, *, start_index: Long = 0, vocab_size: Long = -1) -> Tensor:
    """Rows of a table of which W (rows, width) is the part from `start_index`; zeros for others.

    Ids (...): whole numbers. vocab_size: rows of all parts; EnforceNotMet for an id outside.
    """
    _require_inside("c_embedding: an id", Ids, vocab_size)
    own = Ids.long() - start_index
    outside = (own < 0) | (own >= W.shape[0])
    rows = F.embedding(own.masked_fill(outside, 0), W)
    return rows.masked_fill(outside.unsqueeze(-1), 0.0)


@gradient("c_embedding", rows={"W": "Ids"})
def c_embedding_grad(
    W: Tensor,
    Ids: Tensor,
    d_Out: Tensor,
    *,
    start_index: Long = 0,
    vocab_size: Long = -1,
) -> Tensor:
    """The gradient rows of this part, added up at their ids."""
    own = Ids.long().reshape(-1) - start_index
    inside = (own >= 0) & (own < W.shape[0])
    grads = d_Out.reshape(-1, *W.shape[1:])
    if W.is_meta:
        return torch.empty_like(W)
    return torch.zeros_like(W).index_add_(0, own[inside], grads[inside])


def _require_inside(what: str, numbers: Tensor, count: int, ignored: Tensor | None = None) -> None:
    if count < 0 or numbers.is_meta:
        return
    wrong = (numbers < 0) | (numbers >= count)
    if ignored is not None:
        wrong = wrong & ~ignored
    if bool(wrong.any()):
        raise EnforceNotMet(f"{what} is outside [0, {count}): {numbers[wrong].reshape(-1)[:4]}")


@operator(
    "c_softmax_with_cross_entropy",
    outputs="Softmax Loss",
    uses="Label Softmax",
    differentiable="Logits",
    amp="keep",
    extra={"rank": 0, "nranks": 1},
)
def c_softmax_with_cross_entropy(
    Logits: Tensor,
    Label: Tensor,
    *,
    comm: Communicator,
    ignore_index: Long = -100,
    ring_id: int = 0,
) -> tuple[Tensor, Tensor]:
    """`softmax_with_cross_entropy` of logits (.., classes) of which each member has equal parts.

    Label (.., 1): whole numbers of all classes. Softmax: of this member's part; Loss (.., 1).
    """
    if Logits.is_meta:
        return torch.empty_like(Logits), torch.empty_like(Logits[..., :1])
    members = _members(comm, ring_id)
    ignored = Label == ignore_index
    _require_inside("a label", Label, Logits.shape[-1] * members.size, ignored)
    largest = Logits.amax(-1, keepdim=True)
    members.all_reduce([largest], "max")
    below = Logits - largest
    powers = below.exp()
    own, outside = _own_labels(Label, Logits.shape[-1], members)
    chosen = below.gather(-1, own).masked_fill(outside, 0.0)
    total = powers.sum(-1, keepdim=True)
    members.all_reduce([total, chosen])
    return powers / total, (total.log() - chosen).masked_fill(ignored, 0.0)


def _own_labels(label: Tensor, classes: int, members: Communicator) -> tuple[Tensor, Tensor]:
    """Labels as numbers of this member's classes, and which are others'."""
    own = label.long() - members.rank * classes
    outside = (own < 0) | (own >= classes)
    return own.masked_fill(outside, 0), outside


@gradient("c_softmax_with_cross_entropy")
def c_softmax_with_cross_entropy_grad(
    Label: Tensor,
    Softmax: Tensor,
    d_Loss: Tensor,
    *,
    comm: Communicator,
    ignore_index: Long = -100,
    ring_id: int = 0,
) -> Tensor:
    """(Softmax - 1 at the label) times the gradient of Loss; zeros where labels are ignored."""
    own, outside = _own_labels(Label, Softmax.shape[-1], _members(comm, ring_id))
    slope = Softmax.scatter_add(-1, own, (outside.to(Softmax.dtype) - 1.0))
    return slope * d_Loss.masked_fill(Label == ignore_index, 0.0)
