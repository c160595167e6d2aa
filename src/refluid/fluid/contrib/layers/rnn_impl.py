"""basic_gru and basic_lstm: stacked recurrent networks over padded sequences, unit by unit."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

from refluid.fluid import layers
from refluid.fluid.dygraph.parts.recurrent import ActivationLayer, BasicGRUUnit, BasicLSTMUnit
from refluid.fluid.functions.control.static_rnn import StaticRNN
from refluid.fluid.functions.rnn.unrolled import kept_where_over
from refluid.fluid.param_attr import to_attr
from refluid.ir.variable import Variable

__all__ = ["BasicGRUUnit", "BasicLSTMUnit", "basic_gru", "basic_lstm"]

CellStep = Callable[[Variable, list[Variable]], list[Variable]]


def basic_gru(
    input: Variable,
    init_hidden: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: ActivationLayer | None = None,
    activation: ActivationLayer | None = None,
    dtype: Any = "float32",
    name: str = "basic_gru",
) -> tuple[Variable, Variable]:
    """(outputs of all steps, last hidden states) of layers of `BasicGRUUnit`.

    input: (batch, time, width), or (time, batch, width) unless `batch_first`; outputs are alike,
    hidden_size wide, twice that if `bidirectional`. init_hidden, and the last states: (layers *
    directions, batch, hidden_size). sequence_length: (batch,). Dropout follows each layer.
    """

    def unit(layer: int, direction: str, infix: str) -> CellStep:
        made = BasicGRUUnit(
            f"{name}_{direction}layers_{layer}",
            hidden_size,
            _named(param_attr, f"_{infix}_w_{layer}"),
            _named(bias_attr, f"_{infix}_b_{layer}"),
            gate_activation,
            activation,
            dtype,
        )
        return lambda x, states: [made(x, states[0])]

    stack = _Stack(unit, hidden_size, num_layers, bidirectional, dropout_prob, {})
    outputs, (hidden,) = stack(input, [init_hidden], sequence_length, batch_first)
    return outputs, hidden


def basic_lstm(
    input: Variable,
    init_hidden: Variable | None,
    init_cell: Variable | None,
    hidden_size: int,
    num_layers: int = 1,
    sequence_length: Variable | None = None,
    dropout_prob: float = 0.0,
    bidirectional: bool = False,
    batch_first: bool = True,
    param_attr: Any = None,
    bias_attr: Any = None,
    gate_activation: ActivationLayer | None = None,
    activation: ActivationLayer | None = None,
    forget_bias: float = 1.0,
    dtype: Any = "float32",
    name: str = "basic_lstm",
) -> tuple[Variable, Variable, Variable]:
    """(outputs of all steps, last hidden states, last cell states) of layers of `BasicLSTMUnit`.

    Shapes are those of `basic_gru`.
    """

    def unit(layer: int, direction: str, infix: str) -> CellStep:
        made = BasicLSTMUnit(
            f"{name}_{direction}layers_{layer}",
            hidden_size,
            _named(param_attr, f"_{infix}_w_{layer}"),
            _named(bias_attr, f"_{infix}_b_{layer}"),
            gate_activation,
            activation,
            forget_bias,
            dtype,
        )
        return lambda x, states: list(made(x, states[0], states[1]))

    upscale = {"dropout_implementation": "upscale_in_train"}
    stack = _Stack(unit, hidden_size, num_layers, bidirectional, dropout_prob, upscale)
    outputs, (hidden, cell) = stack(input, [init_hidden, init_cell], sequence_length, batch_first)
    return outputs, hidden, cell


def _named(given: Any, suffix: str) -> Any:
    """The attribute for one layer of several: a name given by the user gets a suffix."""
    attr = to_attr(given)
    if getattr(attr, "name", None) is None:
        return given
    attr = copy.deepcopy(attr)
    attr.name += suffix
    return attr


class _Stack:
    """Layers of units in one direction or two.

    unit: makes the unit of a layer, given its number, `reverse_` or nothing, and `fw` or `bw`.
    """

    def __init__(
        self,
        unit: Callable[[int, str, str], CellStep],
        hidden_size: int,
        num_layers: int,
        bidirectional: bool,
        dropout_prob: float,
        dropout: dict[str, Any],
    ) -> None:
        kinds = [("", "fw"), ("reverse_", "bw")][: 2 if bidirectional else 1]
        self._units = [[unit(layer, *kind) for layer in range(num_layers)] for kind in kinds]
        self._size, self._layers = hidden_size, num_layers
        self._dropout_prob, self._dropout = dropout_prob, dropout

    def __call__(
        self,
        input: Variable,
        init: Sequence[Variable | None],
        sequence_length: Variable | None,
        batch_first: bool,
    ) -> tuple[Variable, list[Variable]]:
        if batch_first:
            input = layers.transpose(input, [1, 0, 2])
        mask = None
        if sequence_length is not None:
            longest = layers.shape(input)[0]
            mask = layers.sequence_mask(sequence_length, maxlen=longest, dtype="float32")
            mask = layers.transpose(mask, [1, 0])
        directions = len(self._units)
        shape = [self._layers, directions, -1, self._size]
        starts = [None if one is None else layers.reshape(one, shape=shape) for one in init]
        outputs, states = self._direction(input, mask, starts, 0)
        if directions == 2:
            turned = [None if x is None else layers.reverse(x, axis=[0]) for x in (input, mask)]
            back, last = self._direction(turned[0], turned[1], starts, 1)
            outputs = layers.concat([outputs, layers.reverse(back, axis=[0])], axis=2)
            shape = [self._layers * 2, -1, self._size]
            states = [
                layers.reshape(layers.concat([one, other], axis=1), shape=shape)
                for one, other in zip(states, last, strict=True)
            ]
        if batch_first:
            outputs = layers.transpose(outputs, [1, 0, 2])
        return outputs, states

    def _direction(
        self,
        input: Any,
        mask: Variable | None,
        starts: Sequence[Variable | None],
        direction: int,
    ) -> tuple[Variable, list[Variable]]:
        """(outputs of all steps, last states of all layers) in one direction."""
        init = [
            [None if start is None else start[layer, direction] for start in starts]
            for layer in range(self._layers)
        ]
        rnn = StaticRNN()
        with rnn.step():
            x = rnn.step_input(input)
            goes_on = None if mask is None else rnn.step_input(mask)
            for layer, unit in enumerate(self._units[direction]):
                states = [self._memory(rnn, one, input) for one in init[layer]]
                x = self._step(rnn, unit, x, states, goes_on)
            rnn.step_output(x)
        *steps, outputs = rnn()
        last = [one[-1] for one in steps]
        kinds = len(starts)
        shape = [self._layers, -1, self._size]
        made = []
        for kind in range(kinds):
            together = layers.concat(last[kind::kinds], axis=0)
            made.append(layers.reshape(together, shape=shape))
        return outputs, made

    def _memory(self, rnn: StaticRNN, init: Variable | None, input: Variable) -> Variable:
        if init is not None:
            return rnn.memory(init=init)
        return rnn.memory(batch_ref=input, shape=[-1, self._size])

    def _step(
        self,
        rnn: StaticRNN,
        unit: CellStep,
        x: Variable,
        states: list[Variable],
        goes_on: Variable | None,
    ) -> Variable:
        """One layer's step: its states are updated and kept; what the next layer gets."""
        new = unit(x, states)
        if goes_on is not None:
            new = [kept_where_over(goes_on, old, one) for old, one in zip(states, new, strict=True)]
        for old, one in zip(states, new, strict=True):
            rnn.update_memory(old, one)
        for one in new:
            rnn.step_output(one)
        if not self._dropout_prob:
            return new[0]
        return layers.dropout(new[0], dropout_prob=self._dropout_prob, **self._dropout)
