"""Buckets of gradients of dygraph's parameters, which are exchanged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.comm.communicator import Communicator, Work
from refluid.core.errors import PeerFailed
from refluid.core.selected_rows import SelectedRows
from refluid.eager.tensor import VarBase

_SHOWN = 4


@dataclass
class GradientBucket:
    """params: numbers of parameters. views: what is exchanged, of each. left: how many gradients
    haven't come in this step."""

    params: list[int]
    views: list[Tensor]
    left: int = 0
    work: Work | None = None

    def wait(self, called: str, names: Sequence[str]) -> None:
        """Returns when it was exchanged; errors name it and its gradients."""
        work, self.work = self.work, None
        if work is None:
            return
        try:
            work.wait()
        except PeerFailed as error:
            shown = ", ".join([*names[:_SHOWN], *([".."] if len(names) > _SHOWN else [])])
            raise PeerFailed(f"{error}\n{called}, gradients of {shown}") from error


def parted(order: list[int], sizes: list[int], largest: float, last: float) -> list[list[int]]:
    """The order in parts of at most so many bytes, or of one; the last part of fewer."""
    parts: list[list[int]] = []
    room = 0.0
    for number, size in zip(reversed(order), reversed(sizes), strict=True):
        if not parts or size > room:
            room = largest if parts else last
            parts.append([])
        parts[-1].append(number)
        room -= size
    return [part[::-1] for part in reversed(parts)]


def only_rows(param: VarBase) -> bool:
    """Whether a parameter's gradient is rows alone."""
    return isinstance(param.gradient_value, SelectedRows)


def dense(param: VarBase) -> Tensor | None:
    """A parameter's gradient, all of it."""
    found = param.gradient_value
    return found.to_dense() if isinstance(found, SelectedRows) else found


def give(param: VarBase, grad: Tensor) -> None:
    """Gives a parameter the gradient."""
    value = param.tensor
    param.rows = None
    if value.is_contiguous() or value.grad is None:
        value.grad = grad if value.is_contiguous() else torch.empty_like(value).copy_(grad)
    elif value.grad is not grad:
        value.grad.copy_(grad)


def gather_rows(param: VarBase, divisor: int, comm: Communicator) -> None:
    """The rows that all processes have of a gradient become its rows."""
    value, grad = param.tensor, param.gradient_value
    if isinstance(grad, Tensor):
        grad = SelectedRows(torch.arange(len(grad), device=grad.device), len(grad), grad)
    if grad is None:
        none = torch.empty(0, dtype=torch.int64, device=value.device)
        grad = SelectedRows(none, len(value), value.new_empty((0, *value.shape[1:])))
    parts = [part for part in comm.all_gather(grad) if isinstance(part, SelectedRows)]
    param.clear_gradient()
    total = SelectedRows.sum(parts)
    if divisor > 1:
        total.value.div_(divisor)
    param.add_rows(total)
