"""Recurrent layers: LSTM and GRU over sequences with LoD, and LSTMs over dense batches."""

from __future__ import annotations

from typing import Any

from refluid.build import check_variables, op
from refluid.core.dtypes import VarType
from refluid.fluid.initializer import Initializer
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

_LSTM_ATTRS = (
    "use_peepholes",
    "is_reverse",
    "gate_activation",
    "cell_activation",
    "candidate_activation",
)


def _check_state(where: str, state: Variable | None, input: Variable, width: int) -> None:
    """AssertionError, as in Fluid, unless a state h0 or c0 declares as many rows as the input."""
    rows = input.shape[0]
    assert state is None or tuple(state.shape) == (rows, width), (
        f"{where}: The shape of an initial state (h0, c0) should be (batch_size, {width}), here "
        f"declared as {[rows, width]}, but it is {list(state.shape)}"
    )


def dynamic_lstm(
    input: Variable,
    size: int,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
) -> tuple[Variable, Variable]:
    """Hidden and cell states (rows, size / 4) of an LSTM over the sequences of `input`.

    input: (rows, size), what `fc` of `size` (4 times the width) makes of the data. h_0 and c_0:
    initial states (sequences, width), both or none. The bias holds the peephole weights too.
    """
    attrs = {name: value for name, value in locals().items() if name in _LSTM_ATTRS}
    helper = LayerHelper("lstm", param_attr=param_attr, bias_attr=bias_attr, name=name)
    width = size // 4
    weight = helper.create_parameter(helper.param_attr, [width, 4 * width], dtype)
    columns = 7 * width if use_peepholes else 4 * width
    bias = helper.create_parameter(helper.bias_attr, [1, columns], dtype, is_bias=True)
    _check_state("dynamic_lstm", h_0, input, width)
    _check_state("dynamic_lstm", c_0, input, width)
    inputs = {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0, "C0": c_0}
    makes = ("Hidden", "Cell", "BatchGate", "BatchCellPreAct")
    hidden, cell, *_ = op("lstm", inputs, attrs, makes, dtype=dtype, layer=helper)
    return hidden, cell


def dynamic_lstmp(
    input: Variable,
    size: int,
    proj_size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    use_peepholes: bool = True,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    cell_activation: str = "tanh",
    candidate_activation: str = "tanh",
    proj_activation: str = "tanh",
    dtype: Any = "float32",
    name: str | None = None,
    h_0: Variable | None = None,
    c_0: Variable | None = None,
    cell_clip: float | None = None,
    proj_clip: float | None = None,
) -> tuple[Variable, Variable]:
    """`dynamic_lstm` with a projection of the hidden state: (rows, proj_size), and the cell.

    The next step sees the projection. h_0 is (sequences, proj_size), c_0 (sequences, size / 4).
    cell_clip and proj_clip bound the size of cell and projection.
    """
    attrs = {name: value for name, value in locals().items() if name in _LSTM_ATTRS}
    helper = LayerHelper("lstmp", param_attr=param_attr, bias_attr=bias_attr, name=name)
    width = size // 4
    weight = helper.create_parameter(helper.param_attr, [proj_size, 4 * width], dtype)
    projecting = helper.create_parameter(helper.param_attr, [width, proj_size], dtype)
    columns = 7 * width if use_peepholes else 4 * width
    bias = helper.create_parameter(helper.bias_attr, [1, columns], dtype, is_bias=True)
    _check_state("dynamic_lstmp", h_0, input, proj_size)
    _check_state("dynamic_lstmp", c_0, input, width)
    inputs = {"Input": input, "Weight": weight, "ProjWeight": projecting, "Bias": bias}
    inputs |= {"H0": h_0, "C0": c_0}
    attrs["proj_activation"] = proj_activation
    attrs |= {"cell_clip": cell_clip or 0.0, "proj_clip": proj_clip or 0.0}
    projection, cell, _ = (helper.create_variable_for_type_inference(dtype) for _ in range(3))
    makes = {"Projection": projection, "Cell": cell}
    makes |= dict.fromkeys(("BatchHidden", "BatchGate", "BatchCellPreAct"), dtype)
    op("lstmp", inputs, attrs, makes, layer=helper)
    return projection, cell


def dynamic_gru(
    input: Variable,
    size: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    is_reverse: bool = False,
    gate_activation: str = "sigmoid",
    candidate_activation: str = "tanh",
    h_0: Variable | None = None,
    origin_mode: bool = False,
) -> Variable:
    """Hidden states (rows, size) of a GRU over the sequences of `input` (rows, 3 * size).

    h_0: initial state (sequences, size). origin_mode: the update gate keeps the old state
    instead of taking the new one.
    """
    helper = LayerHelper("gru", param_attr=param_attr, bias_attr=bias_attr)
    dtype = input.dtype
    weight = helper.create_parameter(helper.param_attr, [size, 3 * size], dtype)
    bias = helper.create_parameter(helper.bias_attr, [1, 3 * size], dtype, is_bias=True)
    inputs = {"Input": input, "Weight": weight, "Bias": bias, "H0": h_0}
    _check_state("dynamic_gru", h_0, input, size)
    makes = ("Hidden", "BatchGate", "BatchResetHiddenPrev", "BatchHidden")
    attrs = {
        "is_reverse": is_reverse,
        "gate_activation": gate_activation,
        "activation": candidate_activation,
        "origin_mode": origin_mode,
    }
    return op("gru", inputs, attrs, makes, layer=helper)[0]


def lstm(
    input: Variable,
    init_h: Variable,
    init_c: Variable,
    max_len: int,
    hidden_size: int,
    num_layers: int,
    dropout_prob: float = 0.0,
    is_bidirec: bool = False,
    is_test: bool = False,
    name: str | None = None,
    default_initializer: Initializer | None = None,
    seed: int = -1,
) -> tuple[Variable, Variable, Variable]:
    """Layers of LSTM over a dense batch (steps, batch, columns): outputs, last hidden, last cell.

    init_h, init_c and the last states are (layers * directions, batch, hidden_size); the outputs
    have hidden_size columns for each direction. dropout_prob applies between layers. One
    parameter holds all weights.
    """
    helper = LayerHelper("cudnn_lstm", name=name)
    check_variables("lstm", {"input": input, "init_h": init_h, "init_c": init_c})
    dtype, columns = input.dtype, input.shape[-1]
    directions = 2 if is_bidirec else 1
    total, before = 0, columns
    for _ in range(num_layers):
        total += directions * 4 * hidden_size * (before + hidden_size + 2)
        before = directions * hidden_size
    weight = helper.create_parameter(
        helper.param_attr, [total], dtype, default_initializer=default_initializer
    )
    cache = helper.create_variable(persistable=True, type=VarType.RAW, stop_gradient=True)
    inputs = {"Input": input, "InitH": init_h, "InitC": init_c, "W": weight, "Cache": cache}
    attrs = {
        "max_len": max_len,
        "is_bidirec": is_bidirec,
        "input_size": columns,
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "is_test": is_test,
        "dropout_prob": dropout_prob,
        "seed": seed,
    }
    makes = ("Out", "last_h", "last_c")
    out, last_h, last_c = op("cudnn_lstm", inputs, attrs, makes, layer=helper)
    return out, last_h, last_c
