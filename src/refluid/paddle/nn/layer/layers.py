"""`paddle.nn.Layer`: a part of a network, in programs and where functions run at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import torch

from refluid.build import at_once
from refluid.core.dtypes import FLOATING, as_dtype, to_torch
from refluid.core.scope import global_scope
from refluid.eager import VarBase
from refluid.fluid.dygraph.layers import Layer as FluidLayer
from refluid.ir.variable import Variable
from refluid.paddle.framework.dtypes import get_default_dtype


class Layer(FluidLayer):
    """A part of a network; a network overrides `__init__` and `forward`.

    As `fluid.dygraph.Layer`, but that it also builds programs: its parameters are then those of the
    default program.
    """

    _refluid_parted = "([a-z])([A-Z])"
    _save_dtype: str | None = None

    def __init__(self, name_scope: str | None = None, dtype: Any = "float32") -> None:
        super().__init__(name_scope, dtype)
        self._buffers: dict[str, Any] = {}
        self._not_kept: set[str] = set()

    # -- what it consists of ----------------------------------------------------

    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: Any = None,
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """A parameter of this layer's name; None where `attr` is False."""
        kind = dtype or self._dtype or get_default_dtype()
        return super().create_parameter(shape, attr, kind, is_bias, default_initializer)

    def register_buffer(self, name: str, tensor: Any, persistable: bool = True) -> None:
        """Adds a variable that isn't trained. persistable: it belongs to the state."""
        if not isinstance(name, str) or "." in name or name == "":
            raise KeyError("The name of buffer can not contain `.`, nor be empty")
        if hasattr(self, name) and name not in self._buffers:
            raise KeyError(f"attribute '{name}' already exists.")
        if tensor is not None and not isinstance(tensor, Variable):
            raise TypeError(
                f"The registered buffer should be a Paddle.Tensor, but received {type(tensor)}."
            )
        self._buffers[name] = tensor
        self._not_kept.discard(name)
        if not persistable:
            self._not_kept.add(name)

    def __getattr__(self, name: str) -> Any:
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and name in buffers:
            return buffers[name]
        return super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        buffers = self.__dict__.get("_buffers")
        if buffers is not None and name in buffers:
            buffers[name] = value
            return
        super().__setattr__(name, value)

    def buffers(self, include_sublayers: bool = True) -> list[Any]:
        """Its buffers and those of its layers."""
        return [one for _, one in self.named_buffers(include_sublayers=include_sublayers)]

    def named_buffers(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(name by attributes, buffer), each once."""
        places = [(prefix, self)]
        if include_sublayers:
            places = [*self.named_sublayers(prefix=prefix, include_self=True)]
        seen: set[int] = set()
        for place, layer in places:
            for name, one in getattr(layer, "_buffers", {}).items():
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    yield f"{place}.{name}" if place else name, one

    def sublayers(self, include_self: bool = False) -> list[Any]:
        """Its layers, and theirs."""
        return [one for _, one in self.named_sublayers(include_self=include_self)]

    def named_sublayers(  # type: ignore[override]
        self, prefix: str = "", include_self: bool = False, layers_set: Any = None, *_: Any
    ) -> Iterator[tuple[str, Any]]:
        """(name by attributes, layer), each once."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        for name, one in self._sub_layers.items():
            if one is not None and one not in seen:
                place = f"{prefix}.{name}" if prefix else name
                seen.add(one)
                yield place, one
                yield from one.named_sublayers(place, layers_set=seen)

    def children(self) -> Iterator[Any]:
        """Its own layers."""
        return (one for _, one in self.named_children())

    def named_children(self) -> Iterator[tuple[str, Any]]:
        """(name, layer) of its own layers, each once."""
        seen: set[int] = set()
        for name, one in self._sub_layers.items():
            if one is not None and id(one) not in seen:
                seen.add(id(one))
                yield name, one

    def apply(self, fn: Callable[[Any], Any]) -> Layer:
        """`fn(layer)` of all its layers and of itself; itself."""
        for one in self.children():
            one.apply(fn)
        fn(self)
        return self

    def extra_repr(self) -> str:
        """What the text of this layer says of it."""
        return ""

    def __repr__(self) -> str:
        parts = [f"({name}): {one!r}" for name, one in self._sub_layers.items()]
        if not parts:
            return f"{type(self).__name__}({self.extra_repr()})"
        inside = "\n".join(parts).replace("\n", "\n  ")
        return f"{type(self).__name__}({self.extra_repr()}\n  {inside}\n)"

    # -- state ------------------------------------------------------------------

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
        use_hook: bool = True,
    ) -> dict[str, Any]:
        """Name by attributes -> parameter or buffer, those of its layers too.

        use_hook: in the element type that `paddle.amp.decorate` was told to save in.
        """
        found = {} if destination is None else destination
        for name, one in (*self._parameters.items(), *self._buffers.items()):
            if one is not None and name not in self._not_kept:
                found[structured_name_prefix + name] = one
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer.state_dict(found, True, f"{structured_name_prefix}{name}.", use_hook)
        if use_hook and self._save_dtype is not None:
            return {name: _saved(one, self._save_dtype) for name, one in found.items()}
        return found

    def set_state_dict(
        self, state_dict: Mapping[str, Any], use_structured_name: bool = True
    ) -> tuple[list[str], list[str]]:
        """Sets parameters and buffers to values by attributes, or by their own names.

        In a program those of the global scope, after the startup program has run. Returns names
        that are missing, and names that nothing has.
        """
        own = self.state_dict(use_hook=False)
        lookup = own if use_structured_name else {one.name: one for one in own.values()}
        for name in lookup.keys() & state_dict.keys():
            _set(lookup[name], state_dict[name])
        missing = [name for name in lookup if name not in state_dict]
        return missing, [name for name in state_dict if name not in lookup]

    def set_dict(  # type: ignore[override]
        self, state_dict: Any, use_structured_name: bool = True, *_: Any
    ) -> Any:
        """As `set_state_dict`."""
        return self.set_state_dict(state_dict, use_structured_name)

    load_dict = set_dict  # type: ignore[assignment]


def _saved(variable: Any, dtype: str) -> Any:
    if as_dtype(variable.dtype) not in FLOATING:
        return variable
    return VarBase(variable.tensor.detach().to(to_torch(as_dtype(dtype))), variable.name)


def _set(variable: Any, value: Any) -> None:
    if at_once():
        given = value if isinstance(value, Variable) else np.asarray(value)
        if {as_dtype(given.dtype), variable.dtype} <= FLOATING and given.dtype != variable.dtype:
            plain = given.tensor if isinstance(given, VarBase) else torch.as_tensor(given)
            given = VarBase(plain.detach().to(variable.tensor.dtype))
        variable.set_value(given)
        return
    array = value.numpy() if isinstance(value, Variable) else np.asarray(value)
    if tuple(array.shape) != tuple(variable.shape):
        raise ValueError(
            f"{variable.name} receives a shape {list(array.shape)}, but the expected shape is "
            f"{list(variable.shape)}."
        )
    from refluid.core.places import CPUPlace

    global_scope().var(variable.name).get_tensor().set(array, CPUPlace())
