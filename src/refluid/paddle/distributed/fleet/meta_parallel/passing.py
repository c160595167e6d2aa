"""What stages of a pipeline hand to each other: tuples of tensors, which say what they are."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.comm import Communicator
from refluid.core.dtypes import VarType, as_dtype, to_torch
from refluid.core.errors import EnforceNotMet

_ROOM = 256  # numbers that describe them
FORWARD, BACKWARD = 0, 1


def hand(comm: Communicator, to: int, values: Sequence[tuple[Tensor, bool]], tag: int) -> None:
    """Sends tensors, each with whether it has a gradient; the other needn't wait."""
    told = [len(values)]
    for value, trains in values:
        told += [int(as_dtype(value.dtype)), int(trains), value.dim(), *value.shape]
    if len(told) > _ROOM:
        raise EnforceNotMet(f"a stage hands over {len(values)} tensors, which are too many")
    head = torch.tensor(told + [0] * (_ROOM - len(told)))
    comm.send([head, *(value for value, _ in values)], to, tag)


def take(
    comm: Communicator, source: int, device: torch.device, tag: int
) -> list[tuple[Tensor, bool]]:
    """Receives what `hand` sent."""
    head = torch.empty(_ROOM, dtype=torch.int64)
    comm.recv([head], source, tag)
    told = iter(head.tolist())
    found = []
    for _ in range(next(told)):
        kind, trains, rank = (next(told) for _ in range(3))
        shape = [next(told) for _ in range(rank)]
        value = torch.empty(shape, dtype=to_torch(VarType(kind)), device=device)
        found.append((value, bool(trains)))
    comm.recv([value for value, _ in found], source, tag)
    return found
