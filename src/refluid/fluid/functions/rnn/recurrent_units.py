"""Single steps of recurrent networks, for loops of one's own."""

from __future__ import annotations

from typing import Any

from refluid.build import check_variables, op
from refluid.core.notices import tell_once
from refluid.fluid.functions.math.linear import fc
from refluid.fluid.functions.tensor.joining import concat
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import ParamAttr
from refluid.ir.variable import Variable

_UNIT_ACTIVATIONS = {"identity": 0, "sigmoid": 1, "tanh": 2, "relu": 3}
_USED = {"activation": "tanh", "gate_activation": "sigmoid"}


def gru_unit(
    input: Variable,
    hidden: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    activation: str = "tanh",
    gate_activation: str = "sigmoid",
    origin_mode: bool = False,
) -> tuple[Variable, Variable, Variable]:
    """One GRU step: the new hidden state, the old one after the reset gate, and the gates.

    input: (batch, size), `size` being 3 times the width; hidden: (batch, width). As in Fluid 1.8
    the activations are tanh and sigmoid, whatever is given.
    """
    for name, given in (("activation", activation), ("gate_activation", gate_activation)):
        if given not in _UNIT_ACTIVATIONS:
            raise ValueError(
                f"gru_unit: activation {given!r} is none of {', '.join(_UNIT_ACTIVATIONS)}"
            )
        if given != _USED[name]:
            tell_once(f"gru_unit: {name}={given!r} is ignored as in Fluid 1.8: it is {_USED[name]}")
    helper = LayerHelper("gru_unit", param_attr=param_attr, bias_attr=bias_attr)
    dtype, width = input.dtype, size // 3
    weight = helper.create_parameter(helper.param_attr, [width, 3 * width], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, 3 * width], dtype, is_bias=True)
    inputs = {"Input": input, "HiddenPrev": hidden, "Weight": weight, "Bias": bias}
    attrs = {name: _UNIT_ACTIVATIONS[used] for name, used in _USED.items()}
    attrs["origin_mode"] = origin_mode
    makes = ("Gate", "ResetHiddenPrev", "Hidden")
    gate, reset, updated = op("gru_unit", inputs, attrs, makes, layer=helper)
    return updated, reset, gate


def lstm_unit(
    x_t: Variable,
    hidden_t_prev: Variable,
    cell_t_prev: Variable,
    forget_bias: float = 0.0,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """One LSTM step: hidden and cell (batch, width) from input (batch, columns) and the old ones.

    ValueError where an input isn't a matrix or batch sizes or widths differ.
    """
    helper = LayerHelper("lstm_unit", name=name)
    given = {"x_t": x_t, "hidden_t_prev": hidden_t_prev, "cell_t_prev": cell_t_prev}
    check_variables("lstm_unit", given)
    for label, var in given.items():
        if len(var.shape) != 2:
            raise ValueError(f"Rank of {label} must be 2.")
    if not x_t.shape[0] == hidden_t_prev.shape[0] == cell_t_prev.shape[0]:
        raise ValueError(
            "The 1st dimensions of x_t, hidden_t_prev and cell_t_prev must be the same."
        )
    if hidden_t_prev.shape[1] != cell_t_prev.shape[1]:
        raise ValueError("The 2nd dimensions of hidden_t_prev and cell_t_prev must be the same.")
    joined = concat(input=[x_t, hidden_t_prev], axis=1)
    columns = fc(
        input=joined,
        size=4 * cell_t_prev.shape[1],
        param_attr=param_attr,
        bias_attr=ParamAttr() if bias_attr is None else bias_attr,
    )
    inputs, attrs = {"X": columns, "C_prev": cell_t_prev}, {"forget_bias": forget_bias}
    cell, hidden = op("lstm_unit", inputs, attrs, ("C", "H"), dtype=x_t.dtype, layer=helper)
    return hidden, cell
