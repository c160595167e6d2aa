"""batch_norm(x) -> sync_batch_norm(x): statistics over the batches of all replicas."""

from __future__ import annotations

from refluid.ir.program import Program
from refluid.passes.protocol import Options, Report

SYNCHRONISED = {"batch_norm": "sync_batch_norm", "batch_norm_grad": "sync_batch_norm_grad"}


def sync_batch_norm(program: Program, options: Options) -> Report:
    """Has the batch normalisations of all blocks, and their gradients, meet; in place."""
    for block in program.blocks:
        for op in block.ops:
            op.type = SYNCHRONISED.get(op.type, op.type)
    program.touch()
    return Report(changed=True)
