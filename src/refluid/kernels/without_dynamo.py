"""Torch's Python functions called without TorchDynamo being imported for them.

torch marks functions that a tracer must not enter: the shape rules of most kernels, and the
methods of dispatch modes. The first call of any of them imports `torch._dynamo`: a CPU-second or
two and hundreds of modules, some of which are found beside a user's script (`profile`). As long as
nobody has imported it nobody traces, and the function itself is all that is needed.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import CellType, FunctionType
from typing import Any

from refluid.kernels.parts import part

# Where torch looks for what it made of a function, before it imports torch._dynamo.
_KEPT = "__dynamo_disable"
_RULES = "torch._refs"
_disable = part("torch._compile._disable_dynamo", None)
_MARKED = getattr(_disable(lambda: None), "__code__", None) if _disable else None


def call_plainly(function: Any) -> bool:
    """Has a function that torch has marked called as it is until torch._dynamo is imported.

    Whether it is such a function; another one stays as it is.
    """
    if not isinstance(function, FunctionType) or function.__code__ is not _MARKED:
        return False
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    if "fn" not in cells:
        return False
    inner = cells["fn"].cell_contents
    if not hasattr(inner, _KEPT):
        setattr(inner, _KEPT, _plain(function, inner))
    return True


def _plain(function: Callable[..., Any], inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        if not hasattr(sys.modules.get("torch._dynamo"), "disable"):
            return inner(*args, **kwargs)
        vars(inner).pop(_KEPT, None)  # from now on torch decides, as it would have from the start
        return function(*args, **kwargs)

    return call


def call_all_plainly() -> int:
    """`call_plainly` for all shape rules that torch has marked; how many there are.

    They are looked for where they stand, under each other's decorators: asking the collector who
    refers to the mark's code takes five times as long.
    """
    rules = [module for name, module in list(sys.modules.items()) if name.startswith(_RULES)]
    waiting: list[Any] = [function for module in rules for function in vars(module).values()]
    seen = set()
    while waiting:
        function = waiting.pop()
        if isinstance(function, FunctionType) and function not in seen:
            seen.add(function)
            waiting += map(_content, function.__closure__ or ())
    return sum(map(call_plainly, seen))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # it is empty yet
        return None
