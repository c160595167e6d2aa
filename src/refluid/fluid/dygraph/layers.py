"""`fluid.dygraph.Layer`: a part of a network with its parameters and its own parts."""

from __future__ import annotations

import collections
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from refluid import eager
from refluid.build import at_once
from refluid.core import names
from refluid.core.causes import PYTHONS, shown_cause
from refluid.core.dtypes import VarType
from refluid.eager import ParamBase, VarBase
from refluid.fluid.dygraph.first_calls import ByName, put_by, take_up
from refluid.fluid.dygraph.forwarding import explained, while_building
from refluid.fluid.dygraph.hooks import Hook, HookRemoveHelper, added, after, before
from refluid.fluid.dygraph.layer_object_helper import LayerObjectHelper
from refluid.fluid.param_attr import ParamAttr, prefixed
from refluid.ir.variable import Parameter

__all__ = ["Layer"]

# What is done, where operators run at once, with the layer whose first call begins.
at_first: Callable[[Layer], None] | None = None


class Layer:
    """A part of a network; a network overrides `__init__` and `forward`.

    Parameters and layers that are set as attributes belong to it, those of a program too while one
    is built. name_scope: prefix of the names of its parameters, its class's name in small letters
    unless given. dtype: of its parameters.
    """

    _refluid_scope: str | None = None  # what it is called instead of its class, if anything
    _refluid_parted = "([a-z0-9])([A-Z])"  # where a class's name is, in names of scopes

    def __init__(self, name_scope: str | None = None, dtype: Any = VarType.FP32) -> None:
        self.training = True
        scope = self._refluid_scope if name_scope is None else name_scope
        scope = _snake(type(self).__name__, self._refluid_parted) if scope is None else scope
        self._full_name = self.__dict__.get("_refluid_kept_name") or names.generate(scope)
        self._helper = LayerObjectHelper(self._full_name)
        self._built = False
        self._dtype = dtype
        self._parameters: dict[str, Any] = collections.OrderedDict()
        self._sub_layers: dict[str, Any] = collections.OrderedDict()
        self._forward_pre_hooks: dict[int, Hook] = collections.OrderedDict()
        self._forward_post_hooks: dict[int, Hook] = collections.OrderedDict()

    # -- running --------------------------------------------------------------

    def train(self) -> None:
        """It and its layers train: batch normalisation takes the batch's, and dropout drops.

        So does `fluid.layers.dropout` from here on, whichever layer calls it.
        """
        eager.train(True)
        for one in (self, *self.sublayers()):
            one.training = True

    def eval(self) -> None:
        """It and its layers infer, and `fluid.layers.dropout` in any layer."""
        eager.train(False)
        for one in (self, *self.sublayers()):
            one.training = False

    def full_name(self) -> str:
        """The prefix of its parameters' names."""
        return self._full_name

    def register_forward_pre_hook(self, hook: Hook) -> HookRemoveHelper:
        """`hook(layer, inputs)` before each `forward`; what it returns replaces the inputs."""
        return added(self._forward_pre_hooks, hook)

    def register_forward_post_hook(self, hook: Hook) -> HookRemoveHelper:
        """`hook(layer, inputs, outputs)` after each; what it returns replaces the outputs."""
        return added(self._forward_post_hooks, hook)

    def _build_once(self, *args: Any, **kwargs: Any) -> None:
        """Called before the first `forward`, with its arguments."""

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the layer computes."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")

    def backward(self, *inputs: Any) -> None:
        """Gradients follow from `forward`: ValueError."""
        raise ValueError("Layer shouldn't implement backward")

    def __call__(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._forward_pre_hooks:
            inputs = before(self, self._forward_pre_hooks, inputs)
        if not self._built:
            self._build_once(*inputs, **kwargs)
            self._built = True
            take_up(self)
            if at_first is not None and at_once():
                at_first(self)
        forward = self.forward if at_once() else while_building(self.forward)
        try:
            outputs = forward(*inputs, **kwargs)
        except PYTHONS as error:
            if (clear := explained(self, error, inputs, kwargs)) is None:
                raise
            raise clear from shown_cause(error)
        hooks = self._forward_post_hooks
        return after(self, hooks, inputs, outputs) if hooks else outputs

    # -- what it consists of --------------------------------------------------

    def create_parameter(
        self,
        shape: Any,
        attr: Any = None,
        dtype: Any = "float32",
        is_bias: bool = False,
        default_initializer: Any = None,
    ) -> Any:
        """A parameter of this layer's name; None where `attr` is False."""
        given = prefixed(ParamAttr._to_attr(attr), self._refluid_scope and self._full_name)
        return self._helper.create_parameter(given, shape, dtype, is_bias, default_initializer)

    def create_variable(
        self,
        name: str | None = None,
        persistable: bool | None = None,
        dtype: Any = None,
        type: VarType = VarType.LOD_TENSOR,
    ) -> Any:
        """A variable without value."""
        if name is None:
            name = names.generate(f"{self._full_name}._generated_var")
        kind = self._dtype if dtype is None else dtype
        return self._helper.create_variable(
            name=name, persistable=persistable, dtype=kind, type=type
        )

    def parameters(self, include_sublayers: bool = True) -> list[Any]:
        """Its parameters and those of its layers."""
        return [one for _, one in self.named_parameters(include_sublayers=include_sublayers)]

    def sublayers(self, include_sublayers: bool = True) -> list[Any]:
        """Its layers, and theirs."""
        if not include_sublayers:
            return [one for one in self._sub_layers.values() if one is not None]
        return [one for _, one in self.named_sublayers()]

    def named_parameters(
        self, prefix: str = "", include_sublayers: bool = True
    ) -> Iterator[tuple[str, Any]]:
        """(name by attributes, parameter), each once."""
        seen: set[int] = set()
        layers = [(prefix, self)]
        if include_sublayers:
            layers = [*self.named_sublayers(prefix=prefix, include_self=True)]
        for place, layer in layers:
            for name, one in layer._parameters.items():
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    yield f"{place}.{name}" if place else name, one

    def named_sublayers(
        self,
        prefix: str = "",
        include_sublayers: bool = True,
        include_self: bool = False,
        layers_set: set[Any] | None = None,
    ) -> Iterator[tuple[str, Any]]:
        """(name by attributes, layer), each once."""
        seen = set() if layers_set is None else layers_set
        if include_self and self not in seen:
            seen.add(self)
            yield prefix, self
        if not include_sublayers:
            return
        for name, one in self._sub_layers.items():
            if one is not None and one not in seen:
                place = f"{prefix}.{name}" if prefix else name
                # By name: layers of Paddle 2 take other arguments.
                yield from one.named_sublayers(prefix=place, include_self=True, layers_set=seen)

    def clear_gradients(self) -> None:
        """Forgets the gradients of all parameters."""
        for layer in self._refluid_layers_within():
            for one in layer._parameters.values():
                if one is not None and one.trainable:
                    one.clear_gradient()

    def _refluid_layers_within(self) -> list[Layer]:
        """Itself, its layers and theirs, each once."""
        found, seen = [self], {id(self)}
        for layer in found:
            for one in layer._sub_layers.values():
                if one is not None and id(one) not in seen:
                    seen.add(id(one))
                    found.append(one)
        return found

    def add_sublayer(self, name: str, sublayer: Any) -> Any:
        """Adds a layer, which is returned."""
        assert isinstance(sublayer, Layer), f"a sublayer is a Layer, not {type(sublayer).__name__}"
        self._sub_layers[name] = sublayer
        return sublayer

    def add_parameter(self, name: str, parameter: Any) -> Any:
        """Adds a parameter, which is returned; None keeps the name free of one."""
        if parameter is not None and not isinstance(parameter, ParamBase | Parameter):
            raise TypeError(f"a parameter is a ParamBase, not {type(parameter).__name__}")
        self._parameters[name] = parameter
        return parameter

    def __getattr__(self, name: str) -> Any:
        for kind in ("_sub_layers", "_parameters"):
            found = self.__dict__.get(kind)
            if found is not None and name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __setattr__(self, name: str, value: Any) -> None:
        own = self.__dict__
        kinds = {"_parameters": (ParamBase, Parameter), "_sub_layers": (Layer,)}
        for kind, of in kinds.items():
            known = own.get(kind)
            if isinstance(value, of):
                if known is None:
                    raise ValueError("super(YourLayer, self).__init__() should be called first")
                for other in ("_parameters", "_sub_layers"):
                    own[other].pop(name, None)
                own.pop(name, None)
                known[name] = value
                return
            if known is not None and name in known:
                if value is not None:
                    raise TypeError(
                        f"assignment to parameter '{name}' should be of type Parameter or None, "
                        f"but got '{type(value).__name__}'"
                    )
                known[name] = None
                return
        object.__setattr__(self, name, value)

    def __delattr__(self, name: str) -> None:
        for kind in ("_parameters", "_sub_layers"):
            if name in self.__dict__[kind]:
                del self.__dict__[kind][name]
                return
        object.__delattr__(self, name)

    # -- state ----------------------------------------------------------------

    def state_dict(
        self,
        destination: dict[str, Any] | None = None,
        include_sublayers: bool = True,
        structured_name_prefix: str = "",
    ) -> dict[str, Any]:
        """Name by attributes -> parameter, those of its layers too; into `destination` if given."""
        found = collections.OrderedDict() if destination is None else destination
        for name, one in self._parameters.items():
            if one is not None:
                found[structured_name_prefix + name] = one
        if include_sublayers:
            for name, layer in self._sub_layers.items():
                if layer is not None:
                    layer.state_dict(found, include_sublayers, f"{structured_name_prefix}{name}.")
        return found

    def set_dict(
        self,
        stat_dict: dict[str, Any],
        include_sublayers: bool = True,
        use_structured_name: bool = True,
    ) -> None:
        """Sets the parameters to values of `stat_dict`, by attributes or by parameters' names.

        Raises RuntimeError for a parameter that is missing, and for another shape.
        """
        own = self.state_dict(include_sublayers=include_sublayers)
        use_structured_name = use_structured_name and not isinstance(stat_dict, ByName)
        lookup = own if use_structured_name else {one.name: one for one in own.values()}
        for name, one in lookup.items():
            if name not in stat_dict:
                raise RuntimeError(
                    f"Parameter not found, Can't not find [ {name} ] in stat_dict; use_structured_"
                    f"name is set to [{use_structured_name}]"
                )
            value = stat_dict[name]
            one.set_value(value if isinstance(value, VarBase) else np.asarray(value))
        put_by(self, stat_dict, lookup, Layer._build_once, by_name=not use_structured_name)

    load_dict = set_dict


def _snake(name: str, parted: str) -> str:
    return re.sub(parted, r"\1_\2", re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)).lower()
