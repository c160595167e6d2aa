"""Of gradients that are compressed, replicas exchange what each has chosen, and nothing before.

    w@GRAD = mul_grad(...)           ->  w@GRAD = mul_grad(...)
                                         w@GRAD = scale(w@GRAD, replicas)
    g, k = dgc(u, v, w@GRAD, ...)        g, k = dgc(u, v, w@GRAD, ...)
                                         g = chosen_all_reduce(g, k, 1 / replicas)

So each compresses the gradient of its own loss, as it is without the others, and the parameter is
updated by the mean of what was chosen.
"""

from __future__ import annotations

from collections.abc import Mapping

from refluid.build import apply
from refluid.ir.attributes import ROLE, OpRole
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of


def exchange_chosen(block: Block, gradients: Mapping[str, str], divided: int) -> set[str]:
    """Does so in place; the gradients that are exchanged in this way.

    gradients: of each parameter. divided: by how many the loss's gradient was divided.
    """
    found = set()
    for op in [one for one in block.ops if facts_of(one.type).compresses]:
        raw = _raw(op, gradients)
        if raw is None:
            continue
        found.add(raw)
        ready = max(one.idx for one in _backward(block) if raw in one.output_arg_names)
        if divided > 1:
            grad, attrs = block.var(raw), {"scale": float(divided), ROLE: OpRole.OPTIMIZE}
            apply("scale", {"X": grad}, {"Out": grad}, attrs, block=block, index=ready + 1)
        (slot,) = facts_of(op.type).compresses
        (name,), (count,) = op.output(slot), op.output("k")
        chosen, attrs = block.var(name), {"scale": 1.0 / divided, ROLE: OpRole.OPTIMIZE}
        inputs = {"X": chosen, "Count": block.var(count)}
        apply("chosen_all_reduce", inputs, {"Out": chosen}, attrs, block=block, index=op.idx + 1)
    return found


def _backward(block: Block) -> list[Operator]:
    return [op for op in block.ops if op.role & OpRole.BACKWARD]


def _raw(op: Operator, gradients: Mapping[str, str]) -> str | None:
    """The gradient that the backward pass makes of the parameter whose gradient is compressed."""
    return next((gradients[param] for param, _ in op.role_pairs if param in gradients), None)
