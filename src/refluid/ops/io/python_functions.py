"""py_func: operators that call Python functions of the user's."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from refluid.core.dtypes import as_dtype, to_torch
from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor
from refluid.core.offsets import Levels
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.infer import no_inference
from refluid.ops.registry import GradOp, operator

PythonFunction = Callable[..., Any]
_functions: list[PythonFunction] = []


def register_function(function: PythonFunction) -> int:
    """The number by which `py_func` operators of this process call `function`."""
    _functions.append(function)
    return len(_functions) - 1


def registered_function(number: int) -> PythonFunction:
    """The function of that number; EnforceNotMet where this process has none."""
    if not 0 <= number < len(_functions):
        raise EnforceNotMet(
            f"py_func: this process has no Python function {number}. A program with py_func runs "
            "only in the process that built it; build it again instead of loading it."
        )
    return _functions[number]


def py_func_gradient(op: Operator) -> list[GradOp]:
    """A py_func of the backward function.

    It is given inputs, outputs (those to be skipped left out) and gradients of the outputs.
    """
    backward = op.attr("backward_callable_id")
    if backward < 0:
        return []
    skipped = set(op.attr("backward_skip_vars"))
    kept = [name for name in op.input("X") + op.output("Out") if name not in skipped]
    given = [name + GRAD for name in op.output("Out")]
    made = [name + GRAD for name in op.input("X")]
    attrs = {
        "forward_callable_id": backward,
        "backward_callable_id": -1,
        "backward_skip_vars": [],
    }
    return [GradOp("py_func", {"X": kept + given}, {"Out": made}, attrs)]


@operator(
    "py_func",
    outputs="Out*?",
    maker=py_func_gradient,
    infer=no_inference,
    effects="host",
    lod="",
    makes_lod="Out",
)
def py_func(
    X: list[Tensor] | None = None,
    *,
    forward_callable_id: int = 0,
    backward_callable_id: int = -1,
    backward_skip_vars: Sequence[str] = (),
    lods_X: list[Levels],
    device: torch.device,
    counts: Sequence[int],
) -> tuple[list[Tensor | None], list[Levels]]:
    """What the Python function of that number makes of X.

    It is called with a LoDTensor per variable (None for one without value) and returns arrays,
    LoDTensors or numbers: one, a tuple or list of them, or None for nothing.
    """
    function = registered_function(forward_callable_id)
    pairs = zip(X or [], lods_X or [() for _ in X or []], strict=True)
    given = [None if one is None else LoDTensor(one, levels) for one, levels in pairs]
    result = function(*given)
    results = list(result) if isinstance(result, tuple | list) else [result]
    results = [] if result is None and counts[0] != 1 else results
    if counts[0] and len(results) != counts[0]:
        raise EnforceNotMet(
            f"py_func: the Python function returned {len(results)} values for {counts[0]} variables"
        )
    made = [_tensor(one, device) for one in results[: counts[0]]]
    return [tensor for tensor, _ in made], [levels for _, levels in made]


def _tensor(value: Any, device: torch.device) -> tuple[Tensor | None, Levels]:
    """A returned value as a tensor on `device`, with its LoD."""
    if value is None:
        return None, ()
    if isinstance(value, LoDTensor):
        return value.tensor.to(device), value.levels
    if isinstance(value, Tensor):
        return value.detach().to(device), ()
    array = np.asarray(value)
    kind = to_torch(as_dtype(array.dtype))
    return torch.from_numpy(np.array(array)).to(device=device, dtype=kind), ()
