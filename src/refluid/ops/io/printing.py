"""`print`: shows a tensor while the program runs."""

from __future__ import annotations

import sys
from collections import Counter
from weakref import WeakKeyDictionary

from torch import Tensor

from refluid.core.dtypes import as_dtype, dtype_name
from refluid.core.lod_tensor import C_NAMES, levels_text, numbers_text
from refluid.core.offsets import Levels, as_lod
from refluid.core.places import place_of
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.registry import GradOp, operator

_PHASES = {True: ("FORWARD", "BOTH"), False: ("BACKWARD", "BOTH")}
_TYPES = C_NAMES | {"int64": "long"}
# How often each operator has written what each place holds.
_shown: WeakKeyDictionary[Operator, Counter[str]] = WeakKeyDictionary()


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
    op: Operator,
    lod_In: Levels = (),
) -> Tensor:
    """In, written to standard output with the message: the first `first_n` times, if positive.

    summarize: how many elements are shown, -1 for all. print_phase: FORWARD, BACKWARD or BOTH.
    The form is that of the documentation of `Print`.
    """
    if In.is_meta or print_phase.upper() not in _PHASES[is_forward]:
        return In
    place = str(place_of(In.device))
    times = _shown.setdefault(op, Counter())
    times[place] += 1
    if 0 < first_n < times[place]:
        return In
    values, dtype = In.detach().reshape(-1), dtype_name(as_dtype(In.dtype))
    facts = {
        "message": message or None,
        "lod": levels_text(as_lod(lod_In)) if print_tensor_lod else None,
        "place": place,
        "shape": list(In.shape) if print_tensor_shape else None,
        "layout": "NCHW",
        "dtype": _TYPES.get(dtype, dtype) if print_tensor_type else None,
        "data": f"[{numbers_text(values if summarize < 0 else values[:summarize])}]",
    }
    lines = [f"Variable: {op.input('In')[0]}"] if print_tensor_name else []
    lines += [f"  - {name}: {value}" for name, value in facts.items() if value is not None]
    # One write: replicas print from threads of their own, at the same time.
    sys.stdout.write("\n".join([*lines, ""]))
    sys.stdout.flush()
    return In
