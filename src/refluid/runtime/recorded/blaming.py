"""Which operator is at fault where a compiled function fails: its kernels, one by one, tell.

Compiled code is made of many operators' kernels and says of none which it belongs to.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.fx import GraphModule, Interpreter, Node

from refluid.ir.operator import Operator
from refluid.runtime.messages import KernelFailed

_Function = Callable[..., Any]


def blaming(function: _Function, module: GraphModule, ops: Sequence[Operator | None]) -> _Function:
    """The function that was compiled of the module; where it fails, KernelFailed says of which
    operator's kernel.

    ops: of each kernel the operator, in the order of the module's calls.
    """

    def call(*given: Tensor) -> Any:
        try:
            return function(*given)
        except (IndexError, RuntimeError) as error:
            failed = _fault(module, ops, given)
            if failed is None:
                raise
            raise failed from error

    return call


def _fault(
    module: GraphModule, ops: Sequence[Operator | None], given: Sequence[Tensor]
) -> KernelFailed | None:
    """What the first kernel that fails says; None where none does, or it is no operator's."""
    with torch.no_grad():
        try:
            _OneByOne(module, ops).run(*(one.clone() for one in given))
        except KernelFailed as failed:
            return failed
        except Exception:  # not enough memory for it, say: the first error stays
            return None
    return None


class _OneByOne(Interpreter):
    """Runs a graph's kernels, each of which knows its operator."""

    def __init__(self, module: GraphModule, ops: Sequence[Operator | None]) -> None:
        super().__init__(module)
        self.extra_traceback = False
        calls = (node for node in module.graph.nodes if _is_kernel(node))
        self._ops = dict(zip(calls, ops, strict=False))  # results are put in order after them

    def run_node(self, n: Node) -> Any:
        """What the node gives; KernelFailed where it fails."""
        try:
            return super().run_node(n)
        except (IndexError, RuntimeError) as error:
            op = self._ops.get(n)
            if op is None:
                raise
            raise KernelFailed(str(error), op) from error


def _is_kernel(node: Node) -> bool:
    return node.op == "call_function" and node.target is not operator.getitem
