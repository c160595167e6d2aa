"""Layers whose weights are split among the members of a group, as functions of the parts."""

from __future__ import annotations

from refluid.build import op
from refluid.core.errors import EnforceNotMet
from refluid.ir.variable import Variable
from refluid.paddle.distributed.groups import Group
from refluid.paddle.nn.functional.shapes import linear

__all__ = ["cross_entropy", "embedding", "gathered", "linear_of_columns", "linear_of_rows"]


def linear_of_columns(
    x: Variable, weight: Variable, bias: Variable | None, group: Group, gather: bool
) -> Variable:
    """x (.., in) by this member's columns of the weight; gather: all members' results."""
    found = linear(_shared(x, group), weight, bias)
    return gathered(found, group) if gather else found


def linear_of_rows(
    x: Variable,
    weight: Variable,
    bias: Variable | None,
    group: Group,
    *,
    is_part: bool,
    total: bool = True,
) -> Variable:
    """x by this member's rows of the weight, the sum over all members.

    is_part: x (.., rows) is this member's part, else all of it. total: else what is to be summed.
    """
    own = x if is_part else _own(x, group)
    found = linear(own, weight)
    if total:
        found = _summed(found, group)
    return found if bias is None else found + bias


def embedding(ids: Variable, weight: Variable, group: Group, rows: int) -> Variable:
    """Rows by whole numbers (..) of a table of so many, of which this member has a part."""
    attrs = {"start_index": group.rank * (rows // group.nranks), "vocab_size": rows}
    return _summed(op("c_embedding", {"W": weight, "Ids": ids}, attrs), group)


def cross_entropy(
    logits: Variable, label: Variable, group: Group, ignore_index: int = -100
) -> Variable:
    """The loss (.., 1) by logits (.., part of the classes) and labels (.., 1) of all classes."""
    attrs = {"ring_id": group.id, "ignore_index": ignore_index}
    makes = {"Softmax": logits.dtype, "Loss": logits.dtype}
    inputs = {"Logits": logits, "Label": label}
    _, loss = op("c_softmax_with_cross_entropy", inputs, attrs, makes)
    found: Variable = loss
    return found


def gathered(x: Variable, group: Group) -> Variable:
    """The x of all members beside each other."""
    attrs = {"ring_id": group.id, "nranks": group.nranks}
    return x if group.nranks == 1 else op("c_concat", {"X": x}, attrs)


def share(what: str, size: int, parts: int) -> int:
    """So many of each of equal parts; EnforceNotMet where there are none."""
    if size % parts:
        raise EnforceNotMet(f"{what} is {size}, which {parts} workers can't share in equal parts")
    return size // parts


def _own(x: Variable, group: Group) -> Variable:
    attrs = {"ring_id": group.id, "nranks": group.nranks}
    return x if group.nranks == 1 else op("c_split", {"X": x}, attrs)


def _shared(x: Variable, group: Group) -> Variable:
    return x if group.nranks == 1 else op("c_identity", {"X": x}, {"ring_id": group.id})


def _summed(x: Variable, group: Group) -> Variable:
    return x if group.nranks == 1 else op("mp_allreduce_sum", {"X": x}, {"ring_id": group.id})
