"""Whether autograd takes notes, switched without the object that `torch.no_grad` makes."""

from __future__ import annotations

from collections.abc import Callable

import torch

from refluid.kernels.parts import part

# Called with whether autograd is to take notes from now on, in the calling thread.
record_gradients: Callable[[bool], object] = part(
    "torch._C._set_grad_enabled", torch.set_grad_enabled
)
