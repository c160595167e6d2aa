"""Reductions over a link in stages, in place: each member reduces a part, and gives it to all."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from refluid.comm.link import PeerLink, Purpose
from refluid.comm.reducing import reduce_at
from refluid.comm.stages import Stages


def everywhere(link: PeerLink, whole: Tensor, reduction: str, purpose: Purpose) -> Stages:
    """`whole`, which is flat, becomes its reduction over all members. Two stages."""
    parts = whole.tensor_split(link.size)
    yield from sharing(link, parts, reduction, purpose)
    yield from spreading(link, parts, purpose)


def sharing(link: PeerLink, parts: Sequence[Tensor], reduction: str, purpose: Purpose) -> Stages:
    """parts[rank], of those for each member, becomes its reduction over all. One stage."""
    own, rank = parts[link.rank], link.rank
    with link.scratch(own, link.size - 1) as others:
        copies = [one.view(own.shape) for one in others]
        copies.insert(rank, own)
        yield link.swapping(parts, copies, purpose)
        reduce_at(rank, copies, reduction)


def spreading(link: PeerLink, parts: Sequence[Tensor], purpose: Purpose) -> Stages:
    """The other parts become what their members have of them. One stage."""
    yield link.swapping([parts[link.rank]] * link.size, parts, purpose)
