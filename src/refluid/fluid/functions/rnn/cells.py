"""RNN cells: what computes one time step of a recurrent network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from typing import Any

from refluid.fluid.functions.control.structures import flatten
from refluid.fluid.functions.tensor.creation import fill_constant_batch_size_like
from refluid.ir.variable import Variable

_Activation = Callable[[Variable], Variable] | None


def _units() -> Any:
    """The module of the units, which are layers of dygraph: most programs have none."""
    return importlib.import_module("refluid.fluid.dygraph.parts.recurrent")


class RNNCell:
    """Base of cells: `call(inputs, states)` gives (outputs, new states), structures both."""

    def call(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        """One time step."""
        raise NotImplementedError("RNNCell must implement the call function.")

    def __call__(self, inputs: Any, states: Any, **kwargs: Any) -> Any:
        return self.call(inputs, states, **kwargs)

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = "float32",
        init_value: float = 0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Constant states for a batch as large as dimension `batch_dim_idx` of `batch_ref`.

        shape: structure of the states' shapes (the cell's own by default), a -1 for the batch in
        front or left away. dtype: one element type, or a structure like `shape`.
        """
        reference = flatten(batch_ref)[0]
        shapes = self.state_shape if shape is None else shape

        def made(part: Any, kind: Any) -> Any:
            if _is_shape(part):
                sizes = list(part) if part[0] == -1 else [-1, *part]
                kind = kind[0] if isinstance(kind, list | tuple) else kind
                state = fill_constant_batch_size_like(
                    input=reference,
                    shape=sizes,
                    dtype=kind,
                    value=init_value,
                    input_dim_idx=batch_dim_idx,
                )
                state.stop_gradient = False
                return state
            kinds = kind if isinstance(kind, list | tuple) else [kind] * len(part)
            return type(part)(made(one, own) for one, own in zip(part, kinds, strict=True))

        return made(shapes, dtype)

    @property
    def state_shape(self) -> Any:
        """Structure of the shapes of the states, without the batch."""
        raise NotImplementedError("Please add implementation for `state_shape` in the used cell.")

    @property
    def state_dtype(self) -> Any:
        """Structure of the element types of the states."""
        raise NotImplementedError("Please add implementation for `state_dtype` in the used cell.")


def _is_shape(part: Any) -> bool:
    return isinstance(part, Sequence) and all(isinstance(size, int) for size in part)


class GRUCell(RNNCell):
    """A GRU (see `BasicGRUUnit`); its output is its state, (batch, hidden_size)."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: _Activation = None,
        activation: _Activation = None,
        dtype: Any = "float32",
        name: str = "GRUCell",
    ) -> None:
        self.hidden_size = hidden_size
        self.gru_unit = _units().BasicGRUUnit(
            name, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype
        )

    def call(  # type: ignore[override]
        self, inputs: Variable, states: Variable
    ) -> tuple[Variable, Variable]:
        """(the new state, the new state)."""
        hidden = self.gru_unit(inputs, states)
        return hidden, hidden

    @property
    def state_shape(self) -> list[int]:
        """`[hidden_size]`"""
        return [self.hidden_size]


class LSTMCell(RNNCell):
    """An LSTM (see `BasicLSTMUnit`); states [hidden, cell], both (batch, hidden_size)."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: _Activation = None,
        activation: _Activation = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",
        name: str = "LSTMCell",
    ) -> None:
        self.hidden_size = hidden_size
        self.lstm_unit = _units().BasicLSTMUnit(
            name,
            hidden_size,
            param_attr,
            bias_attr,
            gate_activation,
            activation,
            forget_bias,
            dtype,
        )

    def call(  # type: ignore[override]
        self, inputs: Variable, states: Sequence[Variable]
    ) -> tuple[Variable, list[Variable]]:
        """(the new hidden state, [the new hidden state, the new cell state])."""
        hidden, cell = self.lstm_unit(inputs, states[0], states[1])
        return hidden, [hidden, cell]

    @property
    def state_shape(self) -> list[list[int]]:
        """`[[hidden_size], [hidden_size]]`"""
        return [[self.hidden_size], [self.hidden_size]]
