"""A variable that has its value as Paddle 2's `Tensor`: what it is asked, indexed and given."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from refluid.core.places import CPUPlace, CUDAPlace, Place
from refluid.eager.as_python import AsPython
from refluid.eager.holding import Holding
from refluid.ir.names import GRAD
from refluid.kernels.settings import without_gradients

_PLACES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda"}


class AsTensor(AsPython):
    """Members of what has a value: those of Paddle 2's tensors, and `value` of Fluid's."""

    __array_priority__ = 100  # an array + a variable is the variable's sum

    def _new(self: Any, value: torch.Tensor, *, stops: bool = False) -> Any:
        return type(self)._plain(value, stops)

    # -- its value as a scope's variable --------------------------------------

    def value(self: Any) -> Holding:
        """What holds its value: `get_tensor()` of it reads and sets it."""
        return Holding(self)

    @property
    def _ivar(self: Any) -> Any:
        return self  # of 1.5 and 1.6, where a variable was one part of two

    def _grad_name(self: Any) -> str:
        return f"{self.name}{GRAD}"

    # -- what it is -----------------------------------------------------------

    @property
    def size(self: Any) -> int:
        """How many elements there are."""
        return int(self.tensor.numel())

    @property
    def place(self: Any) -> Place:
        """Where its value is."""
        device = self.tensor.device
        return CUDAPlace(device.index or 0) if device.type == "cuda" else CPUPlace()

    @property
    def strides(self: Any) -> list[int]:
        """How many elements lie between two along each dimension."""
        return list(self.tensor.stride())

    @property
    def data(self: Any) -> Any:
        """Itself."""
        return self

    def dim(self: Any) -> int:
        """The number of dimensions."""
        return len(self.shape)

    ndimension = dim

    def element_size(self: Any) -> int:
        """Bytes of an element."""
        return int(self.tensor.element_size())

    def is_contiguous(self: Any) -> bool:
        """Whether its elements lie one after the other."""
        return bool(self.tensor.is_contiguous())

    def contiguous(self: Any) -> Any:
        """Itself, or its elements one after the other."""
        return self if self.is_contiguous() else self._new(self.tensor.contiguous())

    def is_dense(self: Any) -> bool:
        """Whether it holds all elements: yes."""
        return True

    # -- where it is ----------------------------------------------------------

    def cpu(self: Any) -> Any:
        """Its value in the memory of the processor."""
        return self._moved(torch.device("cpu"))

    def cuda(self: Any, device_id: int | None = None, blocking: bool = True) -> Any:  # noqa: ARG002
        """Its value on a GPU."""
        return self._moved(torch.device("cuda", device_id or 0))

    def _moved(self: Any, device: torch.device) -> Any:
        own = self.tensor
        return self if own.device == device else self._new(own.to(device), stops=self._stops)

    def to(self: Any, *given: Any, **named: Any) -> Any:
        """Its value in another element type, or at another place, or both; or as another's."""
        found = self
        for one in (*given, *named.values()):
            if one is None or isinstance(one, bool):
                continue
            if isinstance(one, AsTensor):
                found = found.to(one.place, one.dtype)  # type: ignore[attr-defined]
            elif isinstance(one, Place):
                found = found._moved(one.device)
            elif isinstance(one, str) and one.partition(":")[0] in _PLACES:
                kind, _, number = one.partition(":")
                found = found._moved(
                    torch.device(_PLACES[kind], *([int(number)] if number else []))
                )
            else:
                found = found.astype(one)
        return found

    # -- what it is given -----------------------------------------------------

    def copy_(self: Any, other: Any, blocking: bool = True) -> None:  # noqa: ARG002
        """Overwrites the value by another's."""
        self.set_value(other)

    def detach_(self: Any) -> Any:
        """Parts it from what made it."""
        self._value = self.tensor.detach()
        return self

    def alike(self: Any, array: np.ndarray[Any, Any]) -> Any:
        """A constant of these numbers where this variable is."""
        value = torch.from_numpy(np.array(array, order="C")).to(self.tensor.device)
        return self._new(value, stops=True)

    def __getitem__(self: Any, item: Any) -> Any:
        if not _by_tensors(item) or not isinstance(self._value, torch.Tensor):
            return super().__getitem__(item)  # type: ignore[misc]
        from refluid.eager.turned import turned  # few index by tensors

        value, index, _ = turned(self._value, _index(item))
        found = value[index]
        return self._new(found.reshape(1) if found.ndim == 0 else found, stops=self._stops)

    def __setitem__(self: Any, item: Any, value: Any) -> None:
        """Overwrites elements: in its memory, or where gradients must pass, in its stead."""
        from refluid.eager.turned import put, turned  # few overwrite elements

        own = self.tensor
        if own.requires_grad and own.is_leaf and torch.is_grad_enabled():
            raise ValueError(
                f"Leaf Var ({self.name}) that doesn't stop gradient can't use inplace strategy"
            )
        given = value.tensor if isinstance(value, AsTensor) else value  # type: ignore[attr-defined]
        if isinstance(given, np.ndarray | np.generic | list | tuple):
            given = torch.as_tensor(np.asarray(given))
        takes = own.requires_grad
        if isinstance(given, torch.Tensor):
            given = given.to(own.device, own.dtype)
            takes = takes or given.requires_grad
            there, index, _ = turned(own, _index(item))
            place = there[index]
            if given.numel() == 1 and given.ndim > place.ndim:
                given = given.reshape([1] * place.ndim)
        if takes and torch.is_grad_enabled():
            changed = own.clone()
            put(changed, _index(item), given)
            self._stops = False
            self.held = changed
            return
        without_gradients(put, own, _index(item), given)

    # -- gradients ------------------------------------------------------------

    @property
    def grad(self: Any) -> Any:
        """The gradient as a variable; None without one."""
        return self._grad_ivar()

    @grad.setter
    def grad(self: Any, gradient: Any) -> None:
        self.clear_gradient()
        if gradient is not None:
            self.tensor.grad = gradient.tensor.detach()

    def clear_grad(self: Any) -> None:
        """Forgets the gradient."""
        self.clear_gradient()

    def retain_grads(self: Any) -> None:
        """Keeps the gradient of a result: so it is for those that are still there."""

    def register_hook(self: Any, hook: Callable[[Any], Any]) -> Any:
        """`hook(gradient)` when the gradient is known; what it returns takes its place.

        Returns what takes the hook out again by `remove()`. RuntimeError where none reaches it.
        """
        if self.stop_gradient:
            raise RuntimeError("Cannot register hook on a tensor that stop gradient.")

        def called(gradient: torch.Tensor) -> torch.Tensor | None:
            changed = hook(self._new(gradient, stops=not gradient.requires_grad))
            return None if changed is None else changed.tensor

        return self.tensor.register_hook(called)


def _by_tensors(item: Any) -> bool:
    """Whether an index has more than numbers, slices and `...`: lists, masks, new dimensions."""
    parts = item if isinstance(item, tuple) else (item,)
    return any(
        one is None or isinstance(one, bool | list | np.ndarray) or _several(one) for one in parts
    )


def _several(one: Any) -> bool:
    value = getattr(one, "_value", None) if isinstance(one, AsTensor) else None
    return isinstance(value, torch.Tensor) and (value.numel() != 1 or value.dtype is torch.bool)


def _index(item: Any) -> Any:
    """An index as torch takes it."""
    if isinstance(item, tuple):
        return tuple(_index(one) for one in item)
    if isinstance(item, AsTensor):
        value: torch.Tensor = item.tensor  # type: ignore[attr-defined]
        if value.dtype is torch.bool:
            return value
        return int(value.item()) if value.numel() == 1 and value.ndim == 1 else value.long()
    if isinstance(item, slice):
        return slice(
            *(None if one is None else int(one) for one in (item.start, item.stop, item.step))
        )
    if isinstance(item, list):
        return torch.as_tensor(np.asarray([_number(one) for one in item]))
    return torch.from_numpy(item) if isinstance(item, np.ndarray) else item


def _number(one: Any) -> Any:
    return one.numpy().reshape(-1)[0] if isinstance(one, AsTensor) else one  # type: ignore[attr-defined]
