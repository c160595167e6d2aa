"""`print`: shows a tensor while the program runs."""

from __future__ import annotations

import sys
from collections import Counter

from torch import Tensor

from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import GradOp, operator

_PHASES = {True: ("FORWARD", "BOTH"), False: ("BACKWARD", "BOTH")}
_shown: Counter[tuple[str, bool]] = Counter()


def print_gradient(op: Operator) -> list[GradOp]:
    """Prints the gradient."""
    inputs = {"In": [name + GRAD for name in op.output("Out")]}
    outputs = {"Out": [name + GRAD for name in op.input("In")]}
    return [GradOp("print", inputs, outputs, dict(op.attrs) | {"is_forward": False})]


@operator("print", outputs="Out", maker=print_gradient, views={"Out": "In"}, effects="host")
def print_tensor(
    In: Tensor,
    *,
    first_n: int,
    message: str,
    summarize: int,
    print_tensor_name: bool,
    print_tensor_type: bool,
    print_tensor_shape: bool,
    print_tensor_lod: bool,
    print_phase: str = "BOTH",
    is_forward: bool = True,
) -> Tensor:
    """In, written to standard output with the message: the first `first_n` times, if positive.

    summarize: how many elements are shown, -1 for all. print_phase: FORWARD, BACKWARD or BOTH.
    """
    if In.is_meta or print_phase.upper() not in _PHASES[is_forward]:
        return In
    _shown[message, is_forward] += 1
    if first_n > 0 and _shown[message, is_forward] > first_n:
        return In
    values = In.detach().reshape(-1)
    shown = values if summarize < 0 else values[:summarize]
    facts = {
        "shape": list(In.shape) if print_tensor_shape else None,
        "dtype": str(In.dtype).removeprefix("torch.") if print_tensor_type else None,
        "data": shown.tolist(),
    }
    lines = [message] if message else []
    lines += [f"  - {name}: {value}" for name, value in facts.items() if value is not None]
    # One write: replicas print from threads of their own, at the same time.
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()
    return In
