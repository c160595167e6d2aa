"""Whether every operator finds what it reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from refluid.analysis.uses import Key, key_of, writes
from refluid.core.errors import EnforceNotMet, OperatorNotImplemented
from refluid.ir.absent import no_operator
from refluid.ir.block import Block
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.messages import not_initialized
from refluid.runtime.writing import CONTROL


def check_order(
    ops: Sequence[Operator], known: set[Key], is_state: Callable[[Block, str], bool]
) -> set[Key]:
    """Raises where an operator needs what nobody made; returns optional gaps."""
    gaps: set[Key] = set()
    for op in ops:
        definition = find(op.type)
        if definition is None and op.type not in CONTROL:
            raise OperatorNotImplemented(f"{no_operator(op.type)}.\n" + op.made_at)
        for slot, names in op.inputs.items():
            for name in names:
                key = key_of(op.block, name)
                if name == EMPTY or key in known or is_state(op.block, name):
                    continue
                if GRAD not in name and op.type not in CONTROL:
                    raise EnforceNotMet(not_initialized(op, slot, name))
                gaps.add(key)
        known |= writes(op)
    return gaps
