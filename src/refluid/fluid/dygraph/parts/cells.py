"""GRU and LSTM as cells of `fluid.layers.rnn`, made of units that are layers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.fluid.dygraph.parts.recurrent import ActivationLayer, BasicGRUUnit, BasicLSTMUnit
from refluid.fluid.functions.rnn.cells import RNNCell
from refluid.ir.variable import Variable


class GRUCell(RNNCell):
    """A GRU (see `BasicGRUUnit`); its output is its state, (batch, hidden_size)."""

    def __init__(
        self,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: ActivationLayer | None = None,
        activation: ActivationLayer | None = None,
        dtype: Any = "float32",
        name: str = "GRUCell",
    ) -> None:
        self.hidden_size = hidden_size
        self.gru_unit = BasicGRUUnit(
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
        gate_activation: ActivationLayer | None = None,
        activation: ActivationLayer | None = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",
        name: str = "LSTMCell",
    ) -> None:
        self.hidden_size = hidden_size
        self.lstm_unit = BasicLSTMUnit(
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
