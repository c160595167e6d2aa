"""Layers that are one operator without arguments, made from tables."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

from refluid.build import op
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.schema import find
from refluid.ir.variable import Variable

LayerFunction = TypeVar("LayerFunction", bound=Callable[..., Variable])


class UnaryLayer(Protocol):
    """A layer of one variable."""

    __name__: str

    def __call__(self, x: Variable, name: str | None = None) -> Variable: ...


class ElementwiseLayer(Protocol):
    """A layer of two variables, the second broadcast to the first from dimension `axis`."""

    __name__: str

    def __call__(
        self,
        x: Variable,
        y: Variable,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable: ...


def unary(op_type: str, doc: str) -> UnaryLayer:
    """The layer of an operator that takes `X` and gives `Out` of the same type."""

    def layer(x: Variable, name: str | None = None) -> Variable:
        return op(op_type, {"X": x}, name=name)

    return _called(layer, op_type, doc)


def elementwise(op_type: str, doc: str) -> ElementwiseLayer:
    """The layer of an operator on two variables, with an optional activation after it."""

    def layer(
        x: Variable,
        y: Variable,
        axis: int = -1,
        act: str | None = None,
        name: str | None = None,
    ) -> Variable:
        helper = LayerHelper(op_type, act=act, name=name)
        return helper.append_activation(op(op_type, {"X": x, "Y": y}, {"axis": axis}, layer=helper))

    return _called(layer, op_type, doc)


def generate_activation_fn(op_type: str) -> UnaryLayer:
    """The layer `op_type(x, name=None)`; ValueError for an operator that refluid doesn't have."""
    found = find(op_type)
    if found is None:
        raise ValueError(f"refluid has no operator {op_type!r}")
    return unary(op_type, getattr(found, "doc", ""))


def _called(layer: LayerFunction, name: str, doc: str) -> LayerFunction:
    layer.__name__ = layer.__qualname__ = name
    layer.__doc__ = doc
    return layer
