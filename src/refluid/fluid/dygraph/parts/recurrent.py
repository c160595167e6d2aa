"""One time step of a GRU and of an LSTM, as layers that own their parameters."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.functions.math.elementwise import elementwise_add, elementwise_mul
from refluid.fluid.functions.math.linear import matmul
from refluid.fluid.functions.math.unary import sigmoid, tanh
from refluid.fluid.functions.tensor.creation import fill_constant
from refluid.fluid.functions.tensor.joining import concat, split
from refluid.fluid.param_attr import to_attr
from refluid.ir.variable import Variable

ActivationLayer = Callable[[Variable], Variable]


class _Unit(Layer):
    """Parameters `scope/Class_0.w_0`, .., made when the width of the input is known.

    Networks derive units of their own from these: the attributes' names are Fluid's.
    """

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any,
        bias_attr: Any,
        gate_activation: ActivationLayer | None,
        activation: ActivationLayer | None,
        dtype: Any,
    ) -> None:
        super().__init__(f"{name_scope}/{type(self).__name__}", dtype)
        self._hiden_size = hidden_size
        self._param_attr, self._bias_attr = param_attr, bias_attr
        self._gate_activation = gate_activation or sigmoid
        self._activation = activation or tanh

    def _parameter(self, shape: list[int], suffix: str = "", *, is_bias: bool = False) -> Any:
        """A parameter; one named by the user gets a suffix where there are several of a kind."""
        attr = to_attr(self._bias_attr if is_bias else self._param_attr)
        if suffix and getattr(attr, "name", None) is not None:
            attr = copy.copy(attr)
            attr.name += suffix
        return self.create_parameter(shape, attr, self._dtype, is_bias)


class BasicGRUUnit(_Unit):
    """A GRU's step: h' = u h + (1 - u) c, of hidden state (batch, hidden_size).

    u and the reset gate r are sigmoids of [x, h] W + b, c the tanh of [x, r h] W' + b'.
    """

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: ActivationLayer | None = None,
        activation: ActivationLayer | None = None,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            name_scope, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype
        )

    def _build_once(self, input: Variable, pre_hidden: Variable) -> None:
        width, size = input.shape[-1], self._hiden_size
        self._gate_weight = self._parameter([width + size, 2 * size], "_gate")
        self._candidate_weight = self._parameter([width + size, size], "_candidate")
        self._gate_bias = self._parameter([2 * size], "_gate", is_bias=True)
        self._candidate_bias = self._parameter([size], "_candidate", is_bias=True)

    def forward(self, input: Variable, pre_hidden: Variable) -> Variable:
        """The next hidden state; input: (batch, width)."""
        gates = matmul(concat([input, pre_hidden], 1), self._gate_weight)
        gates = self._gate_activation(elementwise_add(gates, self._gate_bias))
        reset, update = split(gates, num_or_sections=2, dim=1)
        candidate = matmul(concat([input, reset * pre_hidden], 1), self._candidate_weight)
        candidate = self._activation(elementwise_add(candidate, self._candidate_bias))
        hidden: Variable = update * pre_hidden + (1 - update) * candidate
        return hidden


class BasicLSTMUnit(_Unit):
    """An LSTM's step: c' = f c + i j and h' = o tanh(c'), states of shape (batch, hidden_size).

    i, f and o are sigmoids and j the tanh of parts of [x, h] W + b; `forget_bias` is added in f.
    """

    def __init__(
        self,
        name_scope: str,
        hidden_size: int,
        param_attr: Any = None,
        bias_attr: Any = None,
        gate_activation: ActivationLayer | None = None,
        activation: ActivationLayer | None = None,
        forget_bias: float = 1.0,
        dtype: Any = "float32",
    ) -> None:
        super().__init__(
            name_scope, hidden_size, param_attr, bias_attr, gate_activation, activation, dtype
        )
        self._forget_bias = fill_constant([1], dtype=dtype, value=forget_bias)
        self._forget_bias.stop_gradient = False

    def _build_once(self, input: Variable, pre_hidden: Variable, pre_cell: Variable) -> None:
        width, size = input.shape[-1], self._hiden_size
        self._weight = self._parameter([width + size, 4 * size])
        self._bias = self._parameter([4 * size], is_bias=True)

    def forward(
        self, input: Variable, pre_hidden: Variable, pre_cell: Variable
    ) -> tuple[Variable, Variable]:
        """The next (hidden state, cell state); input: (batch, width)."""
        gates = elementwise_add(matmul(concat([input, pre_hidden], 1), self._weight), self._bias)
        i, j, f, o = split(gates, num_or_sections=4, dim=-1)
        kept = elementwise_mul(
            pre_cell, self._gate_activation(elementwise_add(f, self._forget_bias))
        )
        added = elementwise_mul(self._gate_activation(i), self._activation(j))
        cell = elementwise_add(kept, added)
        hidden: Variable = self._activation(cell) * self._gate_activation(o)
        return hidden, cell
