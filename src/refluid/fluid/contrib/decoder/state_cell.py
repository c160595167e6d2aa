"""StateCell: names a decoder's inputs and states, and says how a step changes the states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from refluid.fluid import layers
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


class InitState:
    """What a state begins with: `init`, or a constant of `shape` for each row of `init_boot`.

    need_reorder: `init` is in the order of the sequences as they were fed. ValueError without
    `init` and `init_boot`.
    """

    def __init__(
        self,
        init: Variable | None = None,
        shape: Sequence[int] | None = None,
        value: float = 0.0,
        init_boot: Variable | None = None,
        need_reorder: bool = False,
        dtype: Any = "float32",
    ) -> None:
        if init is None and init_boot is None:
            raise ValueError("init_boot must be provided to infer the shape of InitState .")
        if init is None:
            assert init_boot is not None
            init = layers.fill_constant_batch_size_like(
                input=init_boot, value=value, shape=list(shape or [-1]), dtype=dtype
            )
        self._init, self._need_reorder = init, need_reorder

    @property
    def value(self) -> Variable:
        """The first value."""
        return self._init

    @property
    def need_reorder(self) -> bool:
        """Whether the value must be brought into the order of a dynamic RNN."""
        return self._need_reorder


class Keeper(Protocol):
    """Keeps one state from step to step; each decoder has its own kind."""

    def get(self) -> Variable:
        """The value at the start of a step."""

    def update(self, value: Variable) -> None:
        """The value that the next step starts with."""


class StateCell:
    """A step of a decoder, whichever decoder it is.

        cell = StateCell(inputs={"x": None}, states={"h": InitState(init=context)}, out_state="h")

        @cell.state_updater
        def step(cell):
            state = layers.fc([cell.get_state("h"), cell.get_input("x")], 8, act="tanh")
            cell.set_state("h", state)

    inputs: variables by name, None for those given step by step. Raises ValueError for unknown
    names and for a step without updater.
    """

    def __init__(
        self,
        inputs: Mapping[str, Variable | None],
        states: Mapping[str, InitState],
        out_state: str,
        name: str | None = None,
    ) -> None:
        for state, init in states.items():
            if not isinstance(init, InitState):
                raise ValueError(f"state {state!r} should be an InitState, not {init!r}")
        if out_state not in states:
            raise ValueError(f"out_state must be one state in states, not {out_state!r}")
        self._helper = LayerHelper("state_cell", name=name)
        self._inputs = dict(inputs)
        self._init_states = dict(states)
        self._out_state = out_state
        self._updater: Callable[[StateCell], Any] | None = None
        self._make: Callable[[InitState], Keeper] | None = None
        self._keepers: dict[str, Keeper] = {}
        self._current: dict[str, Variable] = {}

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs."""
        return list(self._inputs)

    @property
    def state_names(self) -> list[str]:
        """Names of the states."""
        return list(self._init_states)

    def enter(self, make: Callable[[InitState], Keeper]) -> None:
        """A decoder's block begins, in which `make` keeps the states."""
        if self._make is not None:
            raise ValueError("StateCell has already entered a decoder.")
        self._make, self._keepers, self._current = make, {}, {}

    def leave(self) -> None:
        """The decoder's block ends."""
        self._make, self._current = None, {}

    def get_state(self, state_name: str) -> Variable:
        """The state as it is in this step by now."""
        if state_name not in self._init_states:
            raise ValueError(f"Unknown state {state_name}. Please make sure _switch_decoder()")
        if self._make is None:
            raise ValueError(f"state {state_name} has a value only in a decoder's block")
        if state_name not in self._keepers:
            self._keepers[state_name] = self._make(self._init_states[state_name])
        if state_name not in self._current:
            self._current[state_name] = self._keepers[state_name].get()
        return self._current[state_name]

    def get_input(self, input_name: str) -> Variable:
        """The input of this step."""
        found = self._inputs.get(input_name)
        if found is None:
            raise ValueError(f"Invalid input {input_name}.")
        return found

    def set_state(self, state_name: str, state_value: Variable) -> None:
        """Gives a state another value for the rest of this step."""
        self._current[state_name] = state_value

    def state_updater(self, updater: Callable[[StateCell], Any]) -> Callable[[StateCell], Any]:
        """Decorates the function that computes the states of a step."""
        self._updater = updater
        return updater

    def compute_state(self, inputs: Mapping[str, Variable]) -> None:
        """Runs the updater on these inputs."""
        for name, value in inputs.items():
            if name not in self._inputs:
                raise ValueError(f"Unknown input {name}. Please make sure {name} in input place")
            self._inputs[name] = value
        if self._updater is None:
            raise ValueError("StateCell has no updater; decorate one with state_updater")
        self._updater(self)

    def update_states(self) -> None:
        """The next step starts with the states as they are now."""
        for name, value in self._current.items():
            self._keepers[name].update(value)

    def out_state(self) -> Variable:
        """The state that is the cell's output."""
        return self._current[self._out_state]
