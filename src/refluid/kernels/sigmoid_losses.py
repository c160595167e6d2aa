"""Cross entropies of sigmoids in one pass over memory, shared among torch's threads.

Torch computes them term by term, with a pass for each. Labels are ignored that are a given whole
number when cut to one.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.kernels.sigmoid_loops import losses, slopes

# So many numbers are a part that a thread takes.
_PART = 2**12


def suits(*given: Tensor) -> bool:
    """Whether these are for logits, labels, and gradients if any."""
    like, noted = given[0].shape, torch.is_grad_enabled()
    for one in given:
        if one.dtype is not torch.float32 or not one.is_cpu or one.shape != like:
            return False
        if not one.is_contiguous() or (noted and one.requires_grad):
            return False
    return True


def entropy(x: Tensor, label: Tensor, ignored: int) -> Tensor:
    """max(x, 0) - x * label + log(1 + exp(-|x|)); 0 where a label is ignored."""
    found: Tensor = torch.ops.refluid.sigmoid_entropy(x, label, ignored)
    return found


def gradient(x: Tensor, label: Tensor, grad: Tensor, ignored: int) -> Tensor:
    """grad * (sigmoid(x) - label); 0 where a label is ignored."""
    found: Tensor = torch.ops.refluid.sigmoid_entropy_gradient(x, label, grad, ignored)
    return found


def _entropy(x: Tensor, label: Tensor, ignored: int) -> Tensor:
    out, counter = torch.empty_like(x), torch.zeros(1, dtype=torch.int64)
    losses(counter, x.view(-1), label.view(-1), ignored, out.view(-1), _PART)
    return out


def _gradient(x: Tensor, label: Tensor, grad: Tensor, ignored: int) -> Tensor:
    out, counter = torch.empty_like(x), torch.zeros(1, dtype=torch.int64)
    slopes(counter, x.view(-1), label.view(-1), grad.view(-1), ignored, out.view(-1), _PART)
    return out


# Operators of torch's, as in `epilogues.py`.
if not hasattr(torch.ops.refluid, "sigmoid_entropy"):
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _given = "Tensor x, Tensor label"
    _library.define(f"sigmoid_entropy({_given}, int ignored) -> Tensor")
    _library.define(f"sigmoid_entropy_gradient({_given}, Tensor grad, int ignored) -> Tensor")
    _library.impl("sigmoid_entropy", _entropy, "CPU")
    _library.impl("sigmoid_entropy_gradient", _gradient, "CPU")
