"""A backward pass by torch's engine at once, for slopes of the values' own shapes and types.

`torch.autograd.backward` looks at each of them first, which takes longer than a small network's
gradients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.parts import part

_run: Any = part("torch.autograd.Variable._execution_engine.run_backward", None)


def run_backward(values: Sequence[Tensor], slopes: Sequence[Tensor], keeps: bool) -> None:
    """Adds to the gradients of all that the values were computed from. keeps: their graph stays."""
    if _run is None:
        torch.autograd.backward(values, slopes, retain_graph=keeps)
        return
    given = tuple(values), tuple(slopes)
    _run(*given, keeps, False, (), allow_unreachable=True, accumulate_grad=True)
