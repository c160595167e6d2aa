"""Graphs compiled by TorchInductor, which is imported at the first of them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from refluid.kernels.parts import part

_COMPILE = "torch._inductor.compile_fx.compile_fx"


def compile_graph(module: GraphModule, examples: list[Tensor]) -> Callable[..., Any]:
    """TorchInductor's function for a graph; it keeps what it made on disk for later processes."""
    compile_fx = part(_COMPILE, None)
    if compile_fx is None:
        raise RuntimeError(f"this torch has no {_COMPILE}")
    with torch.no_grad():
        function: Callable[..., Any] = compile_fx(module, examples)
    return function


def without_memory() -> AbstractContextManager[Any]:
    """Within it tensors are made without memory, where torch can."""
    mode = part("torch._subclasses.fake_tensor.FakeTensorMode", nullcontext)
    made: AbstractContextManager[Any] = mode()
    return made
