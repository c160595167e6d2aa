"""batch_norm(x) -> sync_batch_norm(x): statistics over the batches of all replicas."""

from __future__ import annotations

from refluid.ir.program import Program

_SYNCHRONISED = {"batch_norm": "sync_batch_norm", "batch_norm_grad": "sync_batch_norm_grad"}


def sync_batch_norm(program: Program) -> Program:
    """A copy in which the batch normalisations of all blocks, and their gradients, meet."""
    copy = program.clone()
    for block in copy.blocks:
        for op in block.ops:
            op.type = _SYNCHRONISED.get(op.type, op.type)
    return copy
