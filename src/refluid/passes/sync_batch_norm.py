"""batch_norm(x) -> sync_batch_norm(x): statistics over the batches of all replicas."""

from __future__ import annotations

from refluid.ir.program import Program
from refluid.ops.registry import facts_of
from refluid.passes.protocol import Options, Report

_GRAD = "_grad"


def sync_batch_norm(program: Program, _options: Options) -> Report:
    """Has the batch normalisations of all blocks, and their gradients, meet; in place."""
    for block in program.blocks:
        for op in block.ops:
            op.set_type(_synchronised(op.type))
    return Report(changed=True)


def _synchronised(op_type: str) -> str:
    forward = op_type.removesuffix(_GRAD)
    return op_type.replace(forward, facts_of(forward).synchronised or forward)
