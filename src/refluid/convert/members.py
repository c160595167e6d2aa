"""The members of a module that is written: submodules, parameters, buffers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from refluid.convert.naming import Unique, identifier, module_name
from refluid.convert.source import Source
from refluid.convert.weights import Origin, Weight
from refluid.ir.attributes import OpRole


@dataclass
class Written:
    """What the printer needs: submodules (name -> maker), statements, arguments, and the values.

    origins: key of `state` -> what it is in Fluid. draws: variables of random numbers, in order.
    stacks: repeated parts. untrained: keys of `state` that are no parameters.
    ties: those that are the same parameter as another.
    """

    makers: dict[str, str] = field(default_factory=dict)
    state: dict[str, Tensor] = field(default_factory=dict)
    parameters: list[str] = field(default_factory=list)
    buffers: list[str] = field(default_factory=list)
    constants: dict[str, str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    arguments: dict[str, str] = field(default_factory=dict)
    results: dict[str, str] = field(default_factory=dict)
    origins: dict[str, Origin] = field(default_factory=dict)
    homes: dict[str, str] = field(default_factory=dict)
    draws: list[str] = field(default_factory=list)
    stacks: list[Any] = field(default_factory=list)
    untrained: list[str] = field(default_factory=list)
    ties: dict[str, str] = field(default_factory=dict)


class Members:
    """Gives each parameter its place in the module, once. naming: parameter -> submodule's name."""

    def __init__(self, source: Source, naming: Callable[[str], str] = module_name) -> None:
        self.source, self.naming = source, naming
        self.done = Written()
        self.names = Unique(("forward", "training", "train", "eval", "load_state_dict"))
        self._modules: dict[tuple[str, ...], str] = {}
        self._first: dict[Weight, str] = {}

    def module(self, maker: str, weights: Mapping[str, Weight]) -> str:
        """The submodule that has these parameters, made where there is none."""
        key = maker, *(f"{slot}={one}" for slot, one in sorted(weights.items()))
        name = self._modules.get(key)
        if name is None:
            first = next(iter(weights.values()))
            name = self._modules[key] = self.names(self.naming(first.name))
            self.done.makers[name] = maker
            for slot, weight in weights.items():
                self._place(f"{name}.{slot}", weight)
        return f"self.{name}"

    def constant(self, name: str, text: str) -> str:
        """A tensor that is made once and moves with the module."""
        found = self.names(identifier(name))
        self.done.constants[found] = text
        return f"self.{found}"

    def _place(self, key: str, weight: Weight) -> None:
        value = self.source.values[weight.name]
        self.done.state[key] = weight.of(value)
        self.done.origins[key] = Origin(weight, tuple(value.shape))
        if self._first.setdefault(weight, key) != key:
            self.done.ties[key] = self._first[weight]
        if weight.plain:
            self.done.homes.setdefault(weight.name, key)

    def loose(self, name: str) -> str:
        """A saved value that belongs to no submodule, or is read beside it."""
        if name in self.done.homes:
            return f"self.{self.done.homes[name]}"
        attribute = self.names(self.naming(name))
        value = self.source.values[name]
        self._place(attribute, Weight(name))
        is_trained = value.is_floating_point() and _is_trained(self.source, name)
        if not is_trained:
            self.done.untrained.append(attribute)
        (self.done.parameters if is_trained else self.done.buffers).append(attribute)
        return f"self.{attribute}"


def _is_trained(source: Source, name: str) -> bool:
    """Whether a saved value is a parameter: a program that was loaded doesn't say so itself."""
    trainable = getattr(source.program.global_block().vars.get(name), "trainable", None)
    if trainable is not None or source.whole is None:
        return trainable is not False
    ops = (op for block in source.whole.blocks for op in block.ops)
    return any(op.role & OpRole.OPTIMIZE and name in op.input("Param") for op in ops)
