"""A run of a declarative function's program within torch's autograd.

The program stands in autograd's graph as one node. Where all that takes gradients are parameters,
it gives them theirs itself (`eager.handed`), and `backward` of its result asks it without autograd.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.eager import VarBase
from refluid.eager.handed import handed
from refluid.fluid.dygraph.translation.variants import Variant


class Begun:
    """A run that pauses: its results are there, its gradients not yet.

    held: variables that gradients are wanted of, besides those of feeds. direct: which of them are
    given theirs here, instead of by autograd.
    """

    def __init__(
        self, run: Any, variant: Variant, held: Sequence[VarBase], direct: Sequence[bool]
    ) -> None:
        self.variant, self.held, self.direct = variant, held, direct
        self._run: Any = run
        self._like: list[Any] = []

    def start(self) -> tuple[Sequence[Any], Sequence[Any]]:
        """The results, and the LoD of each."""
        values, lods = self._run.start()
        self._like = [
            (one.shape, one.dtype, one.device) if reached else None
            for one, reached in zip(values, self.variant.reached, strict=True)
        ]
        return values, lods

    def offer(self, results: Sequence[VarBase], note: Callable[..., None]) -> None:
        """Has `backward` of a result come here without autograd. Nothing else takes gradients.

        note: is told which result it was, and of the update that comes next.
        """
        for number, (one, reached) in enumerate(zip(results, self.variant.reached, strict=True)):
            if reached:
                one.known_source = one._value, partial(self._from, number, note)

    def _from(self, number: int, note: Callable[..., None], slope: Tensor) -> None:
        """Gradients of what leads to a result. slope: the result's own."""
        fresh = all(one._value.grad is None and one.rows is None for one in self.held)
        handed.latest = partial(note, number) if fresh else None
        grads: list[Tensor | None] = [None] * len(self._like)
        grads[number] = slope
        self.finish(grads)

    def finish(self, grads: Sequence[Tensor | None]) -> list[Tensor | None]:
        """Goes on with the gradients of results; those of feeds and of what autograd leads to."""
        run, variant, self._run = self._run, self.variant, None
        if run is None:
            raise EnforceNotMet(
                "backward went through a declarative function's result a second time, and what "
                "it needs is gone by then, with retain_graph too; call the function again"
            )
        given = _of_their_own(
            torch.zeros(like[0], dtype=like[1], device=like[2])
            if one is None
            else one.to(like[1]).contiguous()
            for one, like in zip(grads, self._like, strict=True)
            if like is not None
        )
        found, _ = run.finish(given)
        gradients = [None if place is None else found[place] for place in variant.given]
        count = len(variant.feeds)
        made = [_dense(one) for one in gradients[:count]]
        for var, own, one in zip(self.held, self.direct, gradients[count:], strict=True):
            if not own:
                made.append(_dense(one))
            elif one is not None:
                handed.give(var, one)
        return made


class _Step(torch.autograd.Function):
    """A run of a program: its results at the pause, its gradients at the end."""

    @staticmethod
    def forward(
        ctx: Any, begun: Begun, values: Sequence[Any], taken: set[int], *sources: Tensor
    ) -> tuple[Any, ...]:
        """taken: ids of tensors that somebody has, of which results are copies."""
        ctx.begun = begun
        ctx.set_materialize_grads(False)
        taken.update(map(id, sources))
        # Not the run's own tensors: it holds them, and they would hold it in turn.
        results = tuple([_apart(one, taken) for one in values])
        fixed = [
            one
            for one, reached in zip(results, begun.variant.reached, strict=True)
            if not reached and isinstance(one, Tensor)
        ]
        if fixed:
            ctx.mark_non_differentiable(*fixed)
        return results

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Any, ...]:
        if torch.is_grad_enabled():
            raise EnforceNotMet(
                "gradients of gradients don't reach through a declarative function; call "
                "ProgramTranslator().enable(False) before, so that it runs as plain dygraph"
            )
        first = (None,) * (4 if any(ctx.begun.direct) else 3)
        return (*first, *ctx.begun.finish(grads))


class _Refusing(torch.autograd.Function):
    """A value whose gradient can't be computed."""

    @staticmethod
    def forward(ctx: Any, value: Tensor, error: EnforceNotMet, _source: Tensor) -> Tensor:
        ctx.error = error
        return value.view_as(value)

    @staticmethod
    def backward(ctx: Any, *_grads: Tensor) -> Any:
        raise ctx.error


def _of_their_own(given: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """Gradients without memory in common, as autograd gives both terms of a sum: a recording of
    such a step would take them for one value.
    """
    found: list[Tensor] = []
    for one in given:
        shared = any(one.data_ptr() == other.data_ptr() for other in found)
        found.append(one.clone() if shared else one)
    return tuple(found)


def _apart(value: Any, taken: set[int]) -> Any:
    if not isinstance(value, Tensor):
        return value
    return value.clone() if id(value) in taken else value.detach()


def _dense(gradient: Any) -> Any:
    return gradient.to_dense() if isinstance(gradient, SelectedRows) else gradient


step: Callable[..., tuple[Any, ...]] = _Step.apply
refusing: Callable[..., Tensor] = _Refusing.apply
