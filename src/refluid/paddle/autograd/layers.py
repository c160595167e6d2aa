"""`PyLayer`: a computation with its gradient, both written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from refluid import eager
from refluid.core.errors import EnforceNotMet
from refluid.eager import VarBase
from refluid.fluid.dygraph.translation.arguments import replaced
from refluid.paddle.autograd import running


class PyLayerContext:
    """What `forward` hands to `backward`: variables, and attributes that are set on it."""

    def __init__(self) -> None:
        self._saved: list[Callable[[], Any]] = []
        self._fixed: set[int] = set()
        self._materializes = True

    def save_for_backward(self, *tensors: Any) -> None:
        """Keeps variables for `backward`."""
        self._saved = [_kept(one) for one in tensors]

    def saved_tensor(self) -> tuple[Any, ...]:
        """What `save_for_backward` kept."""
        return tuple(one() for one in self._saved)

    def mark_non_differentiable(self, *args: Any) -> None:
        """No gradient reaches these results of `forward`."""
        self._fixed = {id(one) for one in args}

    def mark_not_inplace(self, *args: Any) -> None:
        """Says that results are no inputs that were overwritten: results are always new here."""

    def set_materialize_grads(self, value: bool) -> None:
        """Whether a gradient that nothing reached is zeros, as by default, or None."""
        self._materializes = bool(value)


def _kept(one: Any) -> Callable[[], Any]:
    if not running.hooks or not isinstance(one, VarBase):
        return lambda: one
    hook = running.hooks[-1]
    packed = hook.pack_hook(one)
    return lambda: hook.unpack_hook(packed)


class PyLayer:
    """Base of computations with gradients of their own.

        class Tanh(PyLayer):
            @staticmethod
            def forward(ctx, x):
                y = paddle.tanh(x)
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, dy):
                y, = ctx.saved_tensor()
                return dy * (1 - paddle.square(y))

        z = Tanh.apply(x)

    `backward` is given the gradient of each variable that `forward` returned, and returns one for
    each that it was given; None for one that takes none. Where functions run at once only.
    """

    @staticmethod
    def forward(ctx: PyLayerContext, *args: Any, **kwargs: Any) -> Any:
        """What is computed."""
        raise NotImplementedError("You must implement the forward function for PyLayer.")

    @staticmethod
    def backward(ctx: PyLayerContext, *args: Any) -> Any:
        """Gradients of what `forward` was given."""
        raise NotImplementedError("You must implement the backward function for PyLayer.")

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Calls `forward`, such that gradients go by `backward`."""
        if eager.current() is None:
            raise NotImplementedError(
                f"{cls.__name__}.apply runs where functions run at once; in programs write an "
                "operator with its gradient (docs/custom_operators.md), or fluid.layers.py_func"
            )
        context, given = PyLayerContext(), list[VarBase]()

        def note(one: VarBase) -> VarBase:
            given.append(one)
            return one

        replaced([list(args), kwargs], lambda one: isinstance(one, VarBase), note)
        call = _Call(cls, context, args, kwargs, given)
        values = _applied(call, *[one.tensor for one in given])
        return call.returned(values)


class _Call:
    """A call of a layer. given: the variables among its arguments."""

    def __init__(
        self,
        layer: type[PyLayer],
        context: PyLayerContext,
        args: Sequence[Any],
        kwargs: dict[str, Any],
        given: list[VarBase],
    ) -> None:
        self.layer, self.context, self.given = layer, context, given
        self._args, self._kwargs = args, kwargs
        self._outputs: Any = None
        self._made: list[VarBase] = []

    def run(self) -> list[VarBase]:
        """The variables that `forward` returned."""
        self._outputs = self.layer.forward(self.context, *self._args, **self._kwargs)
        replaced(self._outputs, _is_variable, self._note)
        return self._made

    def _note(self, one: VarBase) -> VarBase:
        self._made.append(one)
        return one

    def returned(self, values: Sequence[torch.Tensor]) -> Any:
        """What `forward` returned, with values that gradients pass by."""
        rest = iter(zip(self._made, values, strict=True))

        def change(_: Any) -> VarBase:
            own, value = next(rest)
            return VarBase(value, stop_gradient=id(own) in self.context._fixed)

        return replaced(self._outputs, _is_variable, change)

    def gradients(self, grads: Sequence[torch.Tensor | None]) -> list[torch.Tensor | None]:
        """Gradients of the variables given, of those of the results."""
        taken = [None if one is None else VarBase(one) for one in grads]
        found = self.layer.backward(self.context, *taken)
        listed = list(found) if isinstance(found, list | tuple) else [found]
        if len(listed) != len(self.given):
            raise EnforceNotMet(
                f"{self.layer.__name__}.backward must return a gradient for each of the "
                f"{len(self.given)} variables that forward was given, but returned {len(listed)}"
            )
        return [None if one is None else one.tensor for one in listed]


def _is_variable(one: Any) -> bool:
    return isinstance(one, VarBase)


class _Applied(torch.autograd.Function):
    """A call within torch's autograd."""

    @staticmethod
    def forward(ctx: Any, call: _Call, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        ctx.call = call
        made = call.run()
        ctx.set_materialize_grads(call.context._materializes)
        known = {id(one) for one in given}
        values = [one.tensor.detach() for one in made]
        values = [
            value.clone() if id(one.tensor) in known else value
            for one, value in zip(made, values, strict=True)
        ]
        fixed = call.context._fixed
        ctx.mark_non_differentiable(
            *(value for one, value in zip(made, values, strict=True) if id(one) in fixed)
        )
        return tuple(values)

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        return (None, *ctx.call.gradients(grads))


_applied: Callable[..., tuple[torch.Tensor, ...]] = _Applied.apply
