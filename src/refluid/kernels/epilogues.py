"""What operators do at their end: activations in place, their gradients by the result, losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.parts import part

aten = torch.ops.aten
_add_relu = part("torch.ops.aten._add_relu", None)
_softmax_backward = part("torch.ops.aten._softmax_backward_data", None)

ACTIVATE: dict[str, Callable[[Tensor], Tensor]] = {
    "relu": torch.relu_,
    "tanh": torch.tanh_,
    "sigmoid": torch.sigmoid_,
}
_BACKWARD: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda out, grad: aten.threshold_backward(grad, out, 0),
    "tanh": lambda out, grad: aten.tanh_backward(grad, out),
    "sigmoid": lambda out, grad: aten.sigmoid_backward(grad, out),
}
_BACKWARD_OVER: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "relu": lambda out, grad: aten.threshold_backward.grad_input(grad, out, 0, grad_input=grad),
    "tanh": lambda out, grad: aten.tanh_backward.grad_input(grad, out, grad_input=grad),
    "sigmoid": lambda out, grad: aten.sigmoid_backward.grad_input(grad, out, grad_input=grad),
}
# Functions whose gradient the result tells, so that what they were given needn't be kept.
ACTIVATIONS = tuple(ACTIVATE)
_ONE_PASS = (torch.float32, torch.float64)


def activate_(value: Tensor, activation: str) -> Tensor:
    """The activation of a value, in its place; of none, the value."""
    return ACTIVATE[activation](value) if activation in ACTIVATE else value


def deactivate(out: Tensor | None, grad: Tensor, activation: str) -> Tensor:
    """The gradient of what was activated, from the result and its gradient."""
    if out is None or not activation:
        return grad
    return _BACKWARD[activation](out, laid_as(out, grad))


def deactivate_(out: Tensor | None, grad: Tensor, activation: str) -> Tensor:
    """As `deactivate`, in the place of `grad`."""
    if out is None or not activation:
        return grad
    return _BACKWARD_OVER[activation](out, laid_as(out, grad))


def laid_as(other: Tensor, grad: Tensor) -> Tensor:
    """A gradient in the memory order of what it is of, copied where one has its channels last.

    A kernel that walks through two orders takes three to eight times as long as through one, and
    hands its order on. Gradients come in another one from whatever reshapes or flattens images.
    """
    if grad.stride() == other.stride() or grad.dim() != 4 or other.dim() != 4:
        return grad
    wanted, found = _order(other), _order(grad)
    if wanted is None or found is None or found is wanted:
        return grad
    return grad.contiguous(memory_format=wanted)


def _order(images: Tensor) -> torch.memory_format | None:
    """Whether channels or columns lie side by side; None where both or neither do."""
    _, channels, _, columns = images.stride()
    if (channels == 1) is (columns == 1):
        return None
    return torch.channels_last if channels == 1 else torch.contiguous_format


def add_relu(x: Tensor, y: Tensor, out: Tensor | None = None) -> Tensor:
    """relu(x + y) in one pass over memory where torch has a kernel for it: on the CPU.

    out: where to put it; it may be `x`.
    """
    if _add_relu is not None and x.is_cpu and x.dtype in _ONE_PASS and x.dtype == y.dtype:
        found: Tensor = _add_relu(x, y) if out is None else _add_relu(x, y, out=out)
        return found
    return torch.relu_(x + y if out is None else torch.add(x, y, out=out))


def softmax_gradient(out: Tensor, grad: Tensor, axis: int) -> Tensor:
    """The gradient by what softmax along `axis` was taken of, from the result and its gradient."""
    if _softmax_backward is None:
        product = grad * out
        return product - out * product.sum(axis, keepdim=True)
    found: Tensor = _softmax_backward(grad, out, axis, out.dtype)
    return found


# -- softmax with what its cross entropy needs ----------------------------------

# Of fewer elements torch's kernels find all in the cache; of narrower rows a call takes too long.
_ENOUGH, _WIDE = 2**18, 64
# So many elements are a part of the work that a thread takes.
_PART = 2**15

_wanted: list[Callable[[], bool]] = [lambda: True]


def loop_if(wanted: Callable[[], bool]) -> None:
    """Large losses are computed by compiled loops while this holds."""
    _wanted[:] = [wanted]


def softmax_with_top(x: Tensor, axis: int) -> tuple[Tensor, Tensor, Tensor]:
    """Softmax along `axis`, the largest x there, and the log of that one's softmax.

    The latter two have size 1 at `axis`. Less its log(softmax), a number close to 0, the largest x
    is the log of the sum of all exponentials. Large ones pass over memory once.
    """
    if not softmax_is_by_loop(x, axis):
        softmax = torch.softmax(x, axis)
        return softmax, x.amax(axis, True), softmax.amax(axis, True).log_()
    found: tuple[Tensor, Tensor, Tensor] = torch.ops.refluid.softmax_with_top(x)
    return found


def softmax_with_top_(x: Tensor) -> tuple[Tensor, Tensor]:
    """`softmax_with_top` over x, where `softmax_is_by_loop`; the latter two of its results."""
    found: tuple[Tensor, Tensor] = torch.ops.refluid.softmax_with_top_(x)
    return found


def _by_loop(x: Tensor, out: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax along the last axis of contiguous float32 on the CPU into `out`; top and rest."""
    from refluid.kernels.softmax_loops import softmax_rows  # few programs have losses so large

    width, counter = x.shape[-1], torch.zeros(1, dtype=torch.int64)
    top, rest = (x.new_empty(*x.shape[:-1], 1) for _ in range(2))
    rows, flat = x.view(-1, width), out.view(-1, width)
    softmax_rows(counter, rows, flat, top.view(-1), rest.view(-1), max(1, _PART // width))
    return top, rest


def _apart(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    softmax = torch.empty_like(x)
    return softmax, *_by_loop(x, softmax)


def _over(x: Tensor) -> tuple[Tensor, Tensor]:
    return _by_loop(x, x)


# Operators of torch's, which those who watch calls see. What a library defines ends with it.
if not hasattr(torch.ops.refluid, "softmax_with_top"):  # they are there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define("softmax_with_top(Tensor x) -> (Tensor, Tensor, Tensor)")
    _library.define("softmax_with_top_(Tensor(a!) x) -> (Tensor, Tensor)")
    _library.impl("softmax_with_top", _apart, "CPU")
    _library.impl("softmax_with_top_", _over, "CPU")


def softmax_is_by_loop(x: Tensor, axis: int) -> bool:
    """Whether `softmax_with_top` takes the compiled loop, for large float32 on the CPU."""
    if x.numel() < _ENOUGH or axis not in (-1, x.dim() - 1) or x.shape[-1] < _WIDE:
        return False
    if x.dtype is not torch.float32 or x.device.type != "cpu" or not x.is_contiguous():
        return False
    return _wanted[0]() and not (torch.is_grad_enabled() and x.requires_grad)


# -- dropout of many numbers -----------------------------------------------------

# Of fewer, the code for it costs more to load than a program's steps gain.
_DROPPED = 2**15

_drops: list[Callable[[], bool]] = [lambda: True]


def drop_if(wanted: Callable[[], bool]) -> None:
    """Dropout of many numbers is one pass by a compiled loop while this holds."""
    _drops[:] = [wanted]


def dropout_loops(x: Tensor, *given: Tensor) -> Any:
    """`dropouts.py` for many numbers; None for few, or for what it isn't made for."""
    if x.numel() < _DROPPED or not x.is_cpu or x.dtype is not torch.float32 or not _drops[0]():
        return None
    from refluid.kernels import dropouts  # few programs drop so many

    return dropouts if dropouts.suits(x, *given) else None


# -- losses of many labels and logits -------------------------------------------

# Of fewer, torch's kernels find all in the cache.
_LABELS, _LOGITS = 2**13, 2**16


def label_loops(label: Tensor, *given: Tensor) -> Any:
    """`at_labels.py` for many labels of rows; None for few, or for what it isn't made for."""
    if label.numel() < _LABELS or not label.is_cpu or not _wanted[0]():
        return None
    from refluid.kernels import at_labels  # few programs have so many

    return at_labels if at_labels.suits(label, *given) else None


def sigmoid_loops(x: Tensor, *given: Tensor) -> Any:
    """`sigmoid_losses.py` for many logits; None for few, or for what it isn't made for."""
    if x.numel() < _LOGITS or not x.is_cpu or not _wanted[0]():
        return None
    from refluid.kernels import sigmoid_losses  # few programs have so many

    return sigmoid_losses if sigmoid_losses.suits(x, *given) else None
