"""py_func: Python functions as operators."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refluid.build import apply
from refluid.ir.variable import Variable
from refluid.ops.io.python_functions import register_function

__all__ = ["py_func"]

PythonFunction = Callable[..., Any]
SeveralVariables = Variable | Sequence[Variable] | None


def _listed(values: SeveralVariables, what: str) -> list[Variable]:
    if values is None:
        return []
    found = [values] if isinstance(values, Variable) else values
    if not isinstance(found, list | tuple):
        raise TypeError(f"py_func: {what} must be a Variable, a list or a tuple, not {values!r}")
    return list(found)


def py_func(
    func: PythonFunction,
    x: SeveralVariables,
    out: SeveralVariables,
    backward_func: PythonFunction | None = None,
    skip_vars_in_backward_input: SeveralVariables = None,
) -> SeveralVariables:
    """Calls `func` with the values of `x` in every run; what it returns are the values of `out`.

    func: takes one LoDTensor per variable (`numpy.array(t)` gives the data) and returns arrays
    or LoDTensors. out: variables that exist, with shape and type, or None. backward_func: takes
    x, out and the gradients of out, and returns the gradients of x (None for none); variables
    of x and out in `skip_vars_in_backward_input` are left out.

    Raises TypeError for functions that can't be called, ValueError for variables of out without
    shape, and for skipped variables that are neither in x nor in out. Returns out.
    """
    if not callable(func):
        raise TypeError("py_func: Input func must be a callable")
    if backward_func is not None and not callable(backward_func):
        raise TypeError("py_func: Input backward_func must be a callable")
    inputs, outputs = _listed(x, "x"), _listed(out, "out")
    for one in outputs:
        if not one.has_description():
            raise ValueError("py_func: output shapes of py_func op should be provided by users")
    known = {one.name for one in inputs + outputs}
    skipped: list[str] = []
    if backward_func is not None:
        skipped = [one.name for one in _listed(skip_vars_in_backward_input, "skipped variables")]
        for name in skipped:
            if name not in known:
                raise ValueError(
                    f"py_func: variable {name} is not found in forward inputs and outputs"
                )
    forward = register_function(func)
    attrs = {
        "forward_callable_id": forward,
        "backward_callable_id": -1 if backward_func is None else register_function(backward_func),
        "backward_skip_vars": list(dict.fromkeys(skipped)),
    }
    apply("py_func", {"X": inputs}, {"Out": outputs}, attrs)
    return out
