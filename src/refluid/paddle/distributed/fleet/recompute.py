"""Parts of a network that run again when their gradients are wanted, to keep nothing meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from refluid import eager
from refluid.core import random
from refluid.eager import VarBase
from refluid.fluid.dygraph.translation.arguments import replaced
from refluid.paddle.amp.casting import casting_by
from refluid.paddle.autograd.layers import PyLayer, PyLayerContext
from refluid.paddle.autograd.running import backward as backward_of


class _Again(PyLayer):
    """A function whose gradient runs it again, with the random numbers and casts it had."""

    @staticmethod
    def forward(
        ctx: PyLayerContext, call: Callable[..., Any], preserves: bool, _start: Any, *args: Any
    ) -> Any:
        """The function's results, of which nothing is kept. _start: lets gradients get here."""
        states = random.states() if preserves else None
        ctx.again = call, states, eager.current().casting, args  # type: ignore[attr-defined, union-attr]
        return call(*args)

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """Gradients of the arguments; those of parameters are added where they are kept."""
        call, states, casts, kept = ctx.again  # type: ignore[attr-defined]
        given: list[VarBase] = []

        def anew(one: VarBase) -> VarBase:
            value = one.tensor.detach().requires_grad_(not one.stop_gradient)
            given.append(VarBase(value, stop_gradient=one.stop_gradient))
            return given[-1]

        now = random.states()
        if states is not None:
            random.set_states(states)
        with torch.enable_grad(), casting_by(casts):
            results = call(*replaced(list(kept), _is_variable, anew))
        if states is not None:
            random.set_states(now)
        made = _variables(results)
        pairs = [
            (one, slope)
            for one, slope in zip(made, args, strict=True)
            if one.tensor.requires_grad and slope is not None
        ]
        backward_of([one for one, _ in pairs], [slope for _, slope in pairs])
        return [None, *[None if one.tensor.grad is None else one.grad for one in given]]


def _variables(results: Any) -> list[VarBase]:
    found: list[VarBase] = []

    def note(one: VarBase) -> VarBase:
        found.append(one)
        return one

    replaced(results, _is_variable, note)
    return found


def _is_variable(one: Any) -> bool:
    return isinstance(one, VarBase)


def recompute(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """`function(*args, **kwargs)`, of which no intermediate value is kept for gradients.

    It runs again when these are wanted, with the same random numbers unless
    `preserve_rng_state=False`. `use_reentrant` changes nothing. Variables among `kwargs` get no
    gradient, as in Paddle. Where functions append to programs it is a plain call: programs have
    `RecomputeOptimizer`.
    """
    preserves = kwargs.pop("preserve_rng_state", True)
    kwargs.pop("use_reentrant", None)
    if eager.current() is None or not torch.is_grad_enabled():
        return function(*args, **kwargs)
    start = VarBase(torch.zeros(1, requires_grad=True))
    return _Again.apply(lambda *given: function(*given, **kwargs), preserves, start, *args)


def recompute_sequential(
    ctx: Mapping[str, Any], functions: Sequence[Callable[[Any], Any]], *args: Any, **kwargs: Any
) -> Any:
    """Functions after one another, in parts that each are recomputed.

    ctx: `segments`, how many parts, 1 unless given, and `preserve_rng_state`.
    """
    listed = list(functions)
    size = max(len(listed) // ctx.get("segments", 1), 1)
    preserves = ctx.get("preserve_rng_state", True)
    parts = [listed[at : at + size] for at in range(0, len(listed), size)]
    for part in parts[:-1]:
        args = (recompute(_chain(part), *args, preserve_rng_state=preserves, **kwargs),)
        kwargs = {}
    return _chain(parts[-1])(*args, **kwargs)


def _chain(functions: Sequence[Callable[..., Any]]) -> Callable[..., Any]:
    def run(*args: Any, **kwargs: Any) -> Any:
        found = functions[0](*args, **kwargs)
        for one in functions[1:]:
            found = one(found)
        return found

    return run
