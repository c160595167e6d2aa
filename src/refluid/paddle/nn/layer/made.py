"""Layers without parameters: each a function with settings, made from a table."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from refluid.paddle.nn.layer.layers import Layer

_KIND = inspect.Parameter.POSITIONAL_OR_KEYWORD


class FunctionLayer(Layer):
    """A layer that calls a function with what it was made with."""

    _function: Callable[..., Any]
    _settings: inspect.Signature
    _trains = False

    def __init__(self, *args: Any, **settings: Any) -> None:
        super().__init__()
        bound = self._settings.bind(*args, **settings)
        bound.apply_defaults()
        bound.arguments.pop("name", None)
        self._given = dict(bound.arguments)

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """What the function gives. named: inputs by what Paddle calls them, in order."""
        function, inputs = type(self)._function, (*inputs, *named.values())
        if self._trains:
            return function(*inputs, **self._given, training=self.training)
        return function(*inputs, **self._given)

    def extra_repr(self) -> str:
        """What it was made with."""
        return ", ".join(f"{name}={value}" for name, value in self._given.items())


def layer_of(
    name: str,
    function: Callable[..., Any],
    settings: str = "",
    named: bool = True,
    trains: bool = False,
    **defaults: Any,
) -> type[FunctionLayer]:
    """The layer of a function.

    settings: names of the function's parameters that layers are made with, with the function's
    defaults unless `defaults` has others. named: it takes a name. trains: the function is told
    whether the layer trains.
    """
    own = inspect.signature(function).parameters
    parameters = [
        inspect.Parameter(one, _KIND, default=defaults.get(one, own[one].default))
        for one in settings.split()
    ]
    if named:
        parameters.append(inspect.Parameter("name", _KIND, default=None))
    signature = inspect.Signature(parameters)
    members = {
        "__doc__": function.__doc__,
        "__module__": __name__,
        "__signature__": signature,
        "_function": staticmethod(function),
        "_settings": signature,
        "_trains": trains,
    }
    return type(name, (FunctionLayer,), members)
