"""`backward` of several variables, and hooks around what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch

from refluid.eager import VarBase
from refluid.eager.backward_ends import backward_ended
from refluid.eager.live import live
from refluid.eager.shared_weights import shared_weights

# The hooks that are in use, the last one inside.
hooks: list[saved_tensors_hooks] = []


def backward(tensors: Any, grad_tensors: Any = None, retain_graph: bool = False) -> None:
    """Adds to the gradients of all that these variables were computed from.

    grad_tensors: what each one's own begins with; ones where None. retain_graph: it may be called
    again. ValueError where there are not as many, or one variable is there twice.
    """
    targets = _listed(tensors, "tensors")
    starts = (
        [None] * len(targets) if grad_tensors is None else _listed(grad_tensors, "grad_tensors")
    )
    if len(starts) != len(targets):
        raise ValueError("The length of grad_tensors must be equal to tensors")
    if len({id(one) for one in targets}) < len(targets):
        raise ValueError("The argument 'tensors' of paddle.autograd.backward contains duplicates")
    slopes = [
        torch.ones_like(one.tensor) if start is None else start.tensor.to(one.tensor.dtype)
        for one, start in zip(targets, starts, strict=True)
    ]
    with live.keep_gradients(again=retain_graph):
        shared_weights.backward([one.tensor for one in targets], slopes, retain_graph)
    backward_ended()


def _listed(given: Any, what: str) -> Sequence[Any]:
    found = list(given) if isinstance(given, list | tuple) else [given]
    for one in found:
        if not isinstance(one, VarBase | None):
            raise TypeError(f"{what} of paddle.autograd.backward are tensors, not {one!r}")
    return found


class saved_tensors_hooks(AbstractContextManager[None]):
    """Within, what is kept for gradients is what `pack_hook` makes of it.

    `unpack_hook` gives the variable back when gradients are computed.
    """

    def __init__(self, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook
        self._inside = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)

    def _pack(self, value: torch.Tensor) -> Any:
        return self.pack_hook(VarBase(value.detach(), stop_gradient=True))

    def _unpack(self, packed: Any) -> torch.Tensor:
        found: torch.Tensor = self.unpack_hook(packed).tensor
        return found

    def __enter__(self) -> None:
        self._inside.__enter__()
        hooks.append(self)

    def __exit__(self, *error: Any) -> None:
        hooks.remove(self)
        self._inside.__exit__(*error)
