"""How many updates of parameters are done at once: so many that no more gradients wait for others.

Updates of one kind share a kernel, which takes less time than one for each. But their gradients
wait until the last of them is there, so a group ends with `GROUP` bytes of them.
"""

from __future__ import annotations

from refluid.analysis.sizes import size_of
from refluid.ir.operator import Operator

GROUP = 4 << 20


def gradient_bytes(op: Operator) -> int:
    """The bytes of the gradients that an optimizer's operator reads; 0 for other operators."""
    return sum(
        size_of(op.block.find_var_recursive(name)).given(1) for name in op.inputs.get("Grad", ())
    )
