"""Graphs compiled by TorchInductor, which is imported at the first of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule

from refluid.kernels.parts import part

_COMPILE = "torch._inductor.compile_fx.compile_fx"
_TABLE = "torch._inductor.decomposition.select_decomp_table"


def compile_graph(module: GraphModule, examples: list[Tensor]) -> Callable[..., Any]:
    """TorchInductor's function for a graph; it keeps what it made on disk for later processes."""
    compile_fx, apart = part(_COMPILE, None), _apart()
    if compile_fx is None:
        raise RuntimeError(f"this torch has no {_COMPILE}")
    with torch.no_grad():
        function: Callable[..., Any] = compile_fx(module, examples, decompositions=apart)
    return function


def _apart() -> Mapping[Any, Callable[..., Any]] | None:
    """What kernels consist of, with those that TorchInductor would call as they are: it makes one
    pass of a sum and its activation by itself, and of what is around them too."""
    select, add_relu = part(_TABLE, None), part("torch.ops.aten._add_relu", None)
    if select is None or add_relu is None:
        return None
    return {**select(), add_relu.Tensor: _sum_and_relu}


def _sum_and_relu(x: Tensor, y: Tensor, *, alpha: float = 1) -> Tensor:
    return torch.relu(torch.add(x, y, alpha=alpha))


def without_memory() -> AbstractContextManager[Any]:
    """Within it tensors are made without memory, where torch can."""
    mode = part("torch._subclasses.fake_tensor.FakeTensorMode", nullcontext)
    made: AbstractContextManager[Any] = mode()
    return made
