"""Functions called under settings of torch, by which it chooses kernels.

They are the process's. They are set while a function runs and put back afterwards: threads that
want the same settings run at once, others wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import torch

from refluid.kernels.parts import part

# Called with whether autograd is to take notes from now on, in the calling thread: what
# `torch.no_grad` does, without its object.
record_gradients: Callable[[bool], object] = part(
    "torch._C._set_grad_enabled", torch.set_grad_enabled
)

T = TypeVar("T")
P = ParamSpec("P")


def without_gradients(function: Callable[P, T], *given: P.args, **named: P.kwargs) -> T:
    """What it gives, while autograd takes no notes in this thread.

    Ctrl-C within `torch.no_grad`'s own beginning and end leaves autograd off for good; here none
    can come between.
    """
    former = torch.is_grad_enabled()
    try:
        record_gradients(False)
        return function(*given, **named)
    finally:
        record_gradients(former)


class WithoutGradients(AbstractContextManager[None]):
    """A `with` in which autograd takes no notes in this thread."""

    def __init__(self) -> None:
        self._former: list[bool] = []

    def __enter__(self) -> None:
        self._former.append(torch.is_grad_enabled())
        try:
            record_gradients(False)
        except BaseException:  # Ctrl-C: a block that isn't entered isn't left either
            record_gradients(self._former.pop())
            raise

    def __exit__(self, *_: object) -> None:
        record_gradients(self._former.pop())


TorchSettings = tuple[tuple[str, Any], ...]
KernelFunction = Callable[..., Any]

_cudnn: Any = torch.backends.cudnn
_products: Any = torch.backends.cuda.matmul
_PLACES: dict[str, tuple[Any, str]] = {
    "onednn": (torch.backends.mkldnn, "enabled"),
    "cudnn": (_cudnn, "enabled"),
    "search": (_cudnn, "benchmark"),
    "deterministic": (_cudnn, "deterministic"),
    "convolutions in TF32": (_cudnn, "allow_tf32"),
    "products": (_products, "fp32_precision"),
    "sums of float16": (_products, "allow_fp16_reduced_precision_reduction"),
    "sums of bfloat16": (_products, "allow_bf16_reduced_precision_reduction"),
}


def under(settings: TorchSettings, function: KernelFunction) -> KernelFunction:
    """The function, called under these settings."""

    def run(*arguments: Any, **options: Any) -> Any:
        _gate.enter(settings)
        try:
            return function(*arguments, **options)
        finally:
            _gate.leave()

    return run


def in_force(settings: TorchSettings) -> bool:
    """Whether torch has these settings anyhow, where nobody asks for others."""
    return _gate.rests_at(settings)


class _Gate:
    """Lets threads in that want the same settings."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._settings: TorchSettings = ()
        self._former: TorchSettings = ()

    def rests_at(self, settings: TorchSettings) -> bool:
        with self._changed:
            former = dict(self._former) if self._inside else {}
            return all(
                former.get(name, getattr(*_PLACES[name])) == value for name, value in settings
            )

    def enter(self, settings: TorchSettings) -> None:
        with self._changed:
            while self._inside and self._settings != settings:
                self._changed.wait()
            if not self._inside:
                self._settings, self._former = settings, _set(settings)
            self._inside += 1

    def leave(self) -> None:
        with self._changed:
            self._inside -= 1
            if not self._inside:
                _set(self._former)
                self._changed.notify_all()


def _set(settings: TorchSettings) -> TorchSettings:
    """Changes what differs; returns what it was."""
    former = []
    for name, value in settings:
        place, attribute = _PLACES[name]
        present = getattr(place, attribute)
        if present != value:
            setattr(place, attribute, value)
            former.append((name, present))
    return tuple(former)


_gate = _Gate()
