"""Kernels that write over an input, where nothing else needs its memory, and make no tensor."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace

import torch

from refluid.kernels.watching import OpOverload
from refluid.runtime.recorded.graph import (
    Compiled,
    Kernel,
    Part,
    Value,
    places,
    seen_by_kernels_alone,
)

# Kernels, element by element, that torch also has as `name_`, which writes over its first input;
# and those of which the first two may change places.
_NAMES = """
    add sub mul div relu tanh sigmoid exp log sqrt rsqrt neg abs reciprocal clamp clamp_min
    masked_fill
"""
_EACH = frozenset(_NAMES.split())
_EITHER = frozenset({"add", "mul"})


def over_last_uses(steps: Sequence[Part | Compiled]) -> list[Part | Compiled]:
    """The steps, of which kernels write over an input whose memory they are the last to need.

    Only memory that a kernel of these steps made, that no line of the plan or compiled function
    ever sees, and that the result fills just as the input does.
    """
    own = seen_by_kernels_alone(steps)
    last = {
        place: number
        for number, step in enumerate(steps)
        for place in places((*step.uses, *step.outs))
    }
    spent: defaultdict[int, set[int]] = defaultdict(set)
    for place in own:
        spent[last[place]].add(place)
    return [
        _written_over(step, spent[number]) if isinstance(step, Kernel) else step
        for number, step in enumerate(steps)
    ]


def _written_over(kernel: Kernel, spent: set[int]) -> Kernel:
    name = kernel.name
    if name not in _EACH or kernel.writes or len(kernel.outs) != 1 or kernel.outs[0] is None:
        return kernel
    uses = Counter(value.storage for value in kernel.uses)
    either = name in _EITHER and not kernel.kwargs and len(kernel.args) == 2
    for args in (kernel.args, kernel.args[::-1])[: 1 + either]:
        first = args[0]
        if not (isinstance(first, Value) and first.storage in spent and uses[first.storage] == 1):
            continue
        func = _writing(kernel.func)
        if func and first.layout == kernel.outs[0].layout:
            return replace(kernel, func=func, args=args)
    return kernel


def _writing(func: OpOverload) -> OpOverload | None:
    """The same kernel, which writes over its first input, if there is one."""
    name, _, overload = str(func).removeprefix("aten.").partition(".")
    found: OpOverload | None = getattr(getattr(torch.ops.aten, f"{name}_", None), overload, None)
    return found
