"""Cells of recurrent networks: one time step."""

from __future__ import annotations

import math as numbers
from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import as_dtype
from refluid.fluid.functions.control.structures import flatten
from refluid.ir.variable import Variable
from refluid.paddle.framework.attributes import ParamAttr
from refluid.paddle.nn.functional import activation
from refluid.paddle.nn.initializer import Constant, Uniform
from refluid.paddle.nn.layer.layers import Layer
from refluid.paddle.tensor import manipulation, math
from refluid.paddle.tensor.linalg import matmul


class RNNCellBase(Layer):
    """Base of cells: a layer of (inputs, states) that gives (outputs, new states)."""

    def get_initial_states(
        self,
        batch_ref: Any,
        shape: Any = None,
        dtype: Any = None,
        init_value: float = 0.0,
        batch_dim_idx: int = 0,
    ) -> Any:
        """Constant states for a batch as large as dimension `batch_dim_idx` of `batch_ref`.

        shape: structure of the states' shapes without the batch, the cell's own by default.
        dtype: their element type, the cell's own by default.
        """
        reference = flatten(batch_ref)[0]
        kind = as_dtype(dtype or self._dtype or "float32")

        def made(part: Any) -> Any:
            if not all(isinstance(size, int) for size in part):
                return type(part)(made(one) for one in part)
            sizes = list(part) if part and part[0] == -1 else [-1, *part]
            attrs = {
                "shape": sizes,
                "value": float(init_value),
                "input_dim_idx": batch_dim_idx,
                "output_dim_idx": 0,
                "dtype": int(kind),
            }
            return op("fill_constant_batch_size_like", {"Input": reference}, attrs, dtype=kind)

        return made(self.state_shape if shape is None else shape)

    @property
    def state_shape(self) -> Any:
        """Structure of the shapes of the states, without the batch."""
        raise NotImplementedError("Please add implementation for `state_shape` in the used cell.")

    @property
    def state_dtype(self) -> Any:
        """Structure of the element types of the states."""
        raise NotImplementedError("Please add implementation for `state_dtype` in the used cell.")


class _GatedCell(RNNCellBase):
    """A cell of two weights, for inputs and states, gates one below the other, and two biases."""

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        super().__init__()
        if hidden_size <= 0:
            raise ValueError(
                f"hidden_size of {type(self).__name__} must be greater than 0, but now equals to "
                f"{hidden_size}"
            )
        self.input_size, self.hidden_size = input_size, hidden_size
        high = self.gates * hidden_size
        self.weight_ih = self._part([high, input_size], weight_ih_attr, 1.0)
        self.weight_hh = self._part([high, hidden_size], weight_hh_attr, 1.0)
        self.bias_ih = self._part([high], bias_ih_attr, 0.0, is_bias=True)
        self.bias_hh = self._part([high], bias_hh_attr, 0.0, is_bias=True)

    def _part(self, shape: Sequence[int], attr: Any, value: float, is_bias: bool = False) -> Any:
        """A parameter; where `attr` is False a constant one, ones or zeros, that isn't trained."""
        if attr is False:
            fixed = ParamAttr(initializer=Constant(value), trainable=False)
            made = self.create_parameter(shape, fixed, is_bias=is_bias)
            made.stop_gradient = True
            return made
        limit = 1.0 / numbers.sqrt(self.hidden_size)
        drawn = Uniform(-limit, limit)
        return self.create_parameter(shape, attr, is_bias=is_bias, default_initializer=drawn)

    def _sums(self, inputs: Variable, hidden: Variable) -> tuple[Variable, Variable]:
        """What inputs and states give, for all gates."""
        mine = math.add(matmul(inputs, self.weight_ih, transpose_y=True), self.bias_ih)
        theirs = math.add(matmul(hidden, self.weight_hh, transpose_y=True), self.bias_hh)
        return mine, theirs

    def weights(self) -> list[Any]:
        """Both weights and both biases."""
        return [self.weight_ih, self.weight_hh, self.bias_ih, self.bias_hh]

    @property
    def mode(self) -> str:
        """How the operator `rnn` calls it."""
        raise NotImplementedError

    @property
    def state_shape(self) -> Any:
        """(hidden_size,)."""
        return (self.hidden_size,)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}"


class SimpleRNNCell(_GatedCell):
    """h = act(W_ih x + b_ih + W_hh h + b_hh), `activation` tanh or relu; ValueError for others."""

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        activation: str = "tanh",
        weight_ih_attr: Any = None,
        weight_hh_attr: Any = None,
        bias_ih_attr: Any = None,
        bias_hh_attr: Any = None,
        name: str | None = None,
    ) -> None:
        attrs = weight_ih_attr, weight_hh_attr, bias_ih_attr, bias_hh_attr
        super().__init__(input_size, hidden_size, *attrs, name)
        if activation not in ("tanh", "relu"):
            raise ValueError(
                "activation for SimpleRNNCell should be tanh or relu, but get " + activation
            )
        self.activation = activation

    @property
    def mode(self) -> str:
        return f"RNN_{self.activation.upper()}"

    def forward(self, inputs: Variable, states: Any = None) -> tuple[Variable, Variable]:
        """(output, new state), which are the same."""
        hidden = self.get_initial_states(inputs) if states is None else states
        function = math.tanh if self.activation == "tanh" else activation.relu
        made = function(math.add(*self._sums(inputs, hidden)))
        return made, made

    def extra_repr(self) -> str:
        """The sizes, and the activation where it isn't tanh."""
        plain = super().extra_repr()
        return plain if self.activation == "tanh" else f"{plain}, activation={self.activation}"


class LSTMCell(_GatedCell):
    """c = f c + i g, h = o tanh(c), of gates i, f, g, o."""

    gates = 4
    mode = "LSTM"

    def forward(self, inputs: Variable, states: Any = None) -> tuple[Variable, Any]:
        """(output, (h, c)); the output is h."""
        hidden, cell = self.get_initial_states(inputs) if states is None else states
        parts = manipulation.split(math.add(*self._sums(inputs, hidden)), 4, -1)
        enter, forget, new, leave = parts
        kept = math.multiply(math.sigmoid(forget), cell)
        added = math.multiply(math.sigmoid(enter), math.tanh(new))
        cell = math.add(kept, added)
        hidden = math.multiply(math.sigmoid(leave), math.tanh(cell))
        return hidden, (hidden, cell)

    @property
    def state_shape(self) -> Any:
        """((hidden_size,), (hidden_size,)), of h and c."""
        return (self.hidden_size,), (self.hidden_size,)


class GRUCell(_GatedCell):
    """h = z h + (1 - z) tanh(W_ic x + b_ic + r (W_hc h + b_hc)), of gates r, z, c."""

    gates = 3
    mode = "GRU"

    def forward(self, inputs: Variable, states: Any = None) -> tuple[Variable, Variable]:
        """(output, new state), which are the same."""
        hidden = self.get_initial_states(inputs) if states is None else states
        mine, theirs = (manipulation.split(one, 3, -1) for one in self._sums(inputs, hidden))
        reset = math.sigmoid(math.add(mine[0], theirs[0]))
        keep = math.sigmoid(math.add(mine[1], theirs[1]))
        new = math.tanh(math.add(mine[2], math.multiply(reset, theirs[2])))
        made = math.add(math.multiply(keep, math.subtract(hidden, new)), new)
        return made, made
