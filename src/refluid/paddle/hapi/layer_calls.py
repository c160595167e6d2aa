"""What each layer of a network is called with and gives, in the order of the calls."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from refluid.build import at_once
from refluid.fluid.dygraph import container
from refluid.fluid.dygraph.base import guard, no_grad
from refluid.ir.variable import Variable
from refluid.paddle.framework.devices import expected_place
from refluid.paddle.nn.layer.container import LayerList, Sequential
from refluid.paddle.static.specs import InputSpec
from refluid.paddle.tensor.creation import ones

_LISTS = (LayerList, container.LayerList)


@dataclass
class LayerCall:
    """A call of a layer."""

    layer: Any
    given: Any
    made: Any


@contextmanager
def noted(net: Any) -> Iterator[list[LayerCall]]:
    """The calls of a network's layers, but of those that only hold others in order."""
    found: list[LayerCall] = []
    parts = [one for one in net.sublayers() if not _only_holds(one)] or [net]
    with ExitStack() as stack:
        for one in parts:
            hook = one.register_forward_post_hook(
                lambda layer, given, made: found.append(LayerCall(layer, given, made))
            )
            stack.callback(hook.remove)
        yield found


def _only_holds(layer: Any) -> bool:
    ordered = isinstance(layer, Sequential | container.Sequential)
    return ordered or type(layer) in _LISTS


def called(net: Any, sizes: Any, dtypes: Any, given: Any = None) -> tuple[list[LayerCall], Any]:
    """Runs a network without gradients, in evaluation, on ones of these sizes, or on `given`.

    The calls of its layers, and what it was given.
    """
    with no_grad(), noted(net) as found:
        modes = [(one, one.training) for one in [net, *net.sublayers()]]
        net.eval()
        try:
            inputs = _inputs(sizes, dtypes) if given is None else [given]
            net(*inputs)
        finally:
            for one, training in modes:
                one.training = training
    return found, inputs


def _inputs(sizes: Any, dtypes: Any) -> list[Any]:
    listed = _several(sizes)
    kinds = list(dtypes) if isinstance(dtypes, list | tuple) else [dtypes] * len(listed)
    return [_made(one, kind) for one, kind in zip(listed, kinds, strict=False)]


def _several(sizes: Any) -> list[Any]:
    """The sizes of each input: of one where numbers are given."""
    if isinstance(sizes, InputSpec | Variable):
        return [sizes]
    if all(one is None or isinstance(one, int) for one in sizes):
        return [sizes]
    return list(sizes)


def _made(size: Any, dtype: Any) -> Any:
    shape = size.shape if hasattr(size, "shape") else size
    kind = dtype or getattr(size, "dtype", None) or "float32"
    known: Sequence[int] = [1 if one in (None, -1) else int(one) for one in shape]
    return ones(known, kind)


@contextmanager
def at_once_anyway() -> Iterator[None]:
    """Functions run at once within: as they do, or for the while."""
    if at_once():
        yield
        return
    with guard(expected_place()):
        yield
