"""Which server has which id: consistent hashing, so that a server more moves only its share."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows.ids import PARTS

_POINTS = 256


def stable_hash(text: str) -> int:
    """A number of 64 bits that is the same in every process."""
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little")


def owners_of(servers: Sequence[str]) -> Tensor:
    """The server (by number) of each part of the ids, int16 [PARTS], by the servers' names.

    Each name has 256 points on a circle; a part belongs to the next point. ValueError where two
    have one name.
    """
    if len(set(servers)) < len(servers) or not servers:
        raise ValueError(f"servers must have names of their own: {', '.join(servers)}")
    points = sorted(
        (stable_hash(f"{name}#{number}"), server)
        for server, name in enumerate(servers)
        for number in range(_POINTS)
    )
    places = np.array([place for place, _ in points], np.uint64)
    starts = np.arange(PARTS, dtype=np.uint64) << np.uint64(48)
    chosen = np.searchsorted(places, starts, side="left") % len(points)
    owners = np.array([server for _, server in points], np.int16)[chosen]
    return torch.from_numpy(owners)
