"""What a member takes is of any shape and type."""

from __future__ import annotations

from typing import Any

import torch

from refluid.comm.communicator import Communicator
from tests.comm.test_communicator import Run, run

__all__ = ["run"]


def test_what_comes_is_of_any_shape(run: Run) -> None:
    """`take` learns types and shapes from the sender, message by message."""
    kinds = [torch.float32, torch.int64, torch.bool, torch.bfloat16]

    def work(comm: Communicator) -> Any:
        draws = torch.Generator().manual_seed(comm.rank)
        other = (comm.rank + 1) % comm.size
        for turn in range(4):
            shape = torch.randint(0, 4, (turn,), generator=draws).tolist()
            comm.send([torch.ones(shape, dtype=kind) for kind in kinds], other, tag=1)
        source = (comm.rank - 1) % comm.size
        theirs = torch.Generator().manual_seed(source)
        for turn in range(4):
            shape = torch.randint(0, 4, (turn,), generator=theirs).tolist()
            found = comm.take(len(kinds), source, tag=1)
            assert [(list(one.shape), one.dtype) for one in found] == [
                (shape, kind) for kind in kinds
            ]
            assert all(bool((one == 1).all()) for one in found)
        return True

    assert run(3, work) == [True] * 3
