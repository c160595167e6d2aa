"""`VarBase`: a variable that has its value, and the gradients that reach it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from refluid.core import names
from refluid.core.dtypes import VarType, as_dtype
from refluid.core.errors import EnforceNotMet
from refluid.core.lod import Lod
from refluid.core.places import Place
from refluid.core.selected_rows import SelectedRows
from refluid.eager.as_array import as_given, copied
from refluid.eager.as_tensor import AsTensor
from refluid.eager.backward_ends import backward_ended
from refluid.eager.live import live
from refluid.eager.shared_weights import shared_weights
from refluid.ir.variable import Variable
from refluid.kernels.gradient_hooks import has_hooks
from refluid.kernels.settings import without_gradients

Array = npt.NDArray[Any]


class VarBase(AsTensor, Variable):
    """A tensor with its name, LoD and gradient.

    Its gradient is the sum of all that reached it since `clear_gradient`. With `stop_gradient`
    none reaches it or passes through it.
    """

    kind = "eager"
    type = VarType.LOD_TENSOR
    capacity = error_clip = extra_desc = block = None  # type: ignore[assignment]
    is_data = belong_to_optimizer = False
    need_check_feed = False
    _name: str | None = None
    _lod_level = None
    _stops = _persistable = False
    _dtype: VarType | None = None
    _shape: tuple[int, ...] | None = None
    _value: Any = None
    _lod: Lod | None = None
    rows: SelectedRows | None = None  # the sparse part of the gradient
    # A value, and what computes the gradients of all that led to it, without autograd.
    known_source: tuple[torch.Tensor, Callable[[torch.Tensor], None]] | None = None

    def __init__(
        self,
        value: torch.Tensor | Array | None = None,
        name: str | None = None,
        *,
        stop_gradient: bool = False,
        persistable: bool = False,
        dtype: Any = None,
        shape: Sequence[int] | None = None,
        place: Place | None = None,
        zero_copy: bool = False,
    ) -> None:
        if name is not None:
            self._name = name
        if stop_gradient:
            self._stops = True
        if persistable:
            self._persistable = True
        if dtype is not None:
            self._dtype = as_dtype(dtype)
        if shape is not None:
            self._shape = tuple(shape)
        if isinstance(value, np.ndarray):  # no gradient reaches it
            self._stops, value = True, as_given(value, place, zero_copy)
        if value is not None:
            self.held = value

    @classmethod
    def _plain(cls, value: Any, stops: bool) -> VarBase:
        """A variable with a value, and nothing else of one of this class."""
        made = VarBase.__new__(VarBase)
        made._stops, made.held = stops, value
        return made

    # -- the value ------------------------------------------------------------

    @property
    def held(self) -> Any:
        """A torch tensor, or what else an operator made; None before there is one."""
        return self._value

    @held.setter
    def held(self, value: Any) -> None:
        if isinstance(value, torch.Tensor):
            if self._stops:
                value = value.detach() if value.requires_grad else value
            elif value.requires_grad:
                if not value.is_leaf:
                    live.add(self)
            elif self._persistable and value.is_floating_point():
                value.requires_grad_()
        self._value = value

    @property
    def lod(self) -> Lod:
        """Offsets of the sequences, level by level; empty for none."""
        if self._lod is None:
            self._lod = []
        return self._lod

    @lod.setter
    def lod(self, lod: Lod) -> None:
        self._lod = lod

    @property
    def tensor(self) -> torch.Tensor:
        """The value. EnforceNotMet if there is none yet."""
        if not isinstance(self._value, torch.Tensor):
            raise EnforceNotMet(f"variable {self.name!r} holds no tensor yet")
        return self._value

    @property
    def name(self) -> str:
        """Its name; one of its own unless it was given one."""
        if self._name is None:
            self._name = names.generate("generated_tensor")
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name

    @property  # type: ignore[override]
    def shape(self) -> list[int]:
        """Sizes of all dimensions."""
        value = self._value
        value = value.value if isinstance(value, SelectedRows) else value
        return list(value.shape if isinstance(value, torch.Tensor) else self._shape or ())

    @shape.setter
    def shape(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape)

    @property
    def dtype(self) -> VarType:
        """Element type."""
        if isinstance(self._value, torch.Tensor):
            return as_dtype(self._value.dtype)
        return VarType.FP32 if self._dtype is None else self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self._dtype = as_dtype(dtype)

    @property
    def persistable(self) -> bool:
        """Whether it is a parameter or another state."""
        return bool(self._persistable)

    @persistable.setter
    def persistable(self, persistable: bool) -> None:
        self._persistable = persistable

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient reaches it."""
        value = self._value
        return self._stops or (isinstance(value, torch.Tensor) and not value.requires_grad)

    @stop_gradient.setter
    def stop_gradient(self, stop: bool) -> None:
        self._stops = stop
        value = self._value
        if not isinstance(value, torch.Tensor):
            return
        if stop:
            self._value = value.detach()
        elif (value.is_floating_point() or value.is_complex()) and not value.requires_grad:
            value.requires_grad_()

    @property
    def is_leaf(self) -> bool:
        """Whether it was computed from nothing that takes gradients."""
        return not isinstance(self._value, torch.Tensor) or self._value.is_leaf

    def describe(self, *, shape: Sequence[int], dtype: VarType | None) -> None:
        """What a program would be told of its shape; here it has one."""

    def numpy(self) -> Array:
        """A copy of the value, of rows alone that of the rows. EnforceNotMet if there is none."""
        value = self._value
        return copied(value.value if isinstance(value, SelectedRows) else self.tensor)

    def set_value(self, value: Any) -> None:  # type: ignore[override]
        """Overwrites the value by another of its shape and element type. Takes arrays and tensors.

        Raises AssertionError for another shape or element type.
        """
        new = value.tensor if isinstance(value, VarBase) else torch.as_tensor(np.asarray(value))
        own = self.tensor
        assert new.shape == own.shape, (
            f"Variable Shape not match, Variable [ {self.name} ] need tensor with shape "
            f"{list(own.shape)} but load set tensor with shape {list(new.shape)}"
        )
        assert new.dtype == own.dtype, (
            f"Variable dtype not match, Variable [ {self.name} ] need tensor with dtype "
            f"{str(own.dtype)[6:]} but load tensor with dtype {str(new.dtype)[6:]}"
        )
        own.data.copy_(new)  # a gradient that is yet to come reads it, as Fluid's do

    def detach(self) -> VarBase:
        """The same value, apart from what made it."""
        return VarBase(self.tensor.detach(), stop_gradient=True)

    # -- gradients ------------------------------------------------------------

    def backward(  # type: ignore[override]
        self,
        grad_tensor: Any = None,
        retain_graph: bool = False,
        backward_strategy: Any = None,  # noqa: ARG002 (it orders sums; here autograd does)
    ) -> None:
        """Adds to the gradient of all that this value was computed from.

        grad_tensor: what its own begins with, 1 unless given. retain_graph: it may be called
        again. Where nothing it was computed from takes a gradient, nothing happens but a warning.
        """
        value = self.tensor
        if not value.requires_grad:
            told = f"backward: nothing that {self.name!r} was computed from takes a gradient; set "
            warnings.warn(told + "stop_gradient = False, and leave no_grad", stacklevel=2)
            return
        slope, known = torch.ones_like(value), self.known_source
        if isinstance(grad_tensor, VarBase):
            slope = grad_tensor.tensor.to(value.dtype).reshape(value.shape)
        with live.keep_gradients(again=retain_graph):
            if known is not None and known[0] is value and not has_hooks(value):
                value.grad = slope
                without_gradients(known[1], slope)
            else:
                shared_weights.backward((value,), (slope,), retain_graph)
        backward_ended()

    @property
    def gradient_value(self) -> torch.Tensor | SelectedRows | None:
        """The gradient: dense, rows alone, or None."""
        value = self._value
        dense = value.grad if isinstance(value, torch.Tensor) else None
        if self.rows is None:
            return dense
        return self.rows if dense is None else dense + self.rows.to_dense()

    @property
    def takes_rows(self) -> bool:
        """Whether rows of its gradient are kept as they are: it was computed from nothing."""
        return live.keeps_rows and self.tensor.is_leaf

    def add_rows(self, rows: SelectedRows) -> None:
        """Adds rows to the gradient."""
        self.rows = rows if self.rows is None else SelectedRows.sum([self.rows, rows])

    def gradient(self) -> Any:
        """A copy of the gradient as an array, of rows alone as [values, rows]; None without one."""
        found = self.gradient_value
        if isinstance(found, SelectedRows):
            return [found.value.numpy().copy(), found.index.numpy().copy()]
        return None if found is None else VarBase(found.detach()).numpy()

    def _grad_ivar(self) -> VarBase | None:
        """The gradient as a variable."""
        return self.as_gradient(self.gradient_value)

    def as_gradient(self, found: Any) -> VarBase | None:
        """What was `gradient_value`, as a variable."""
        if found is None:
            return None
        made = VarBase._plain(found, stops=True)
        made._value, made.name = found, self.grad_name
        return made

    def clear_gradient(self) -> None:
        """Forgets the gradient."""
        if self.rows is not None:
            self.rows = None
        value = self._value
        if isinstance(value, torch.Tensor):
            value.grad = None

    def __deepcopy__(self, memo: dict[int, Any]) -> VarBase:
        copied = type(self).__new__(type(self))
        copied.__dict__.update(self.__dict__)
        memo[id(self)] = copied
        copied._value = None
        if isinstance(self._value, torch.Tensor):
            copied.held = self._value.detach().clone()
        copied.rows = None
        return copied
