"""One step of an LSTM or a GRU, for networks that write their loop themselves."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ir.operator import Operator
from refluid.ops.definition import OperatorDef
from refluid.ops.registry import gradient, operator
from refluid.ops.required import require_equal, require_rows
from refluid.ops.rnn.gate_activations import numbered_activation
from refluid.ops.rnn.gru import gru_backward, gru_forward, gru_step, weight_gradient
from refluid.ops.rnn.widths import require_declared_widths, require_widths

aten = torch.ops.aten
Grads = tuple[Tensor | None, ...]


@operator("lstm_unit", outputs="C H", uses="X C_prev C")
def lstm_unit(X: Tensor, C_prev: Tensor, *, forget_bias: float = 0.0) -> tuple[Tensor, Tensor]:
    """C = C_prev * sigmoid(f + forget_bias) + sigmoid(i) * tanh(j) and H = tanh(C) * sigmoid(o).

    X (rows, 4 * width) holds i, f, o, j; C_prev, C and H are (rows, width).
    """
    require_rows("C_prev", C_prev, "X", len(X))
    i, f, o, j = X.chunk(4, 1)
    cell = (torch.sigmoid(i) * torch.tanh(j)).addcmul_(C_prev, torch.sigmoid(f + forget_bias))
    return cell, torch.tanh(cell) * torch.sigmoid(o)


@gradient("lstm_unit")
def lstm_unit_grad(
    X: Tensor,
    C_prev: Tensor,
    C: Tensor,
    d_C: Tensor | None,
    d_H: Tensor | None,
    *,
    forget_bias: float = 0.0,
) -> Grads:
    """Gradients of X and C_prev."""
    i, f, o, j = X.chunk(4, 1)
    i, f, o, j = torch.sigmoid(i), torch.sigmoid(f + forget_bias), torch.sigmoid(o), torch.tanh(j)
    d_X = torch.zeros_like(X)
    d_i, d_f, d_o, d_j = d_X.chunk(4, 1)
    grad = torch.zeros_like(C) if d_C is None else d_C
    if d_H is not None:
        active = torch.tanh(C)
        through = aten.tanh_backward(d_H * o, active)
        grad = through if d_C is None else through.add_(d_C)
        aten.sigmoid_backward.grad_input(active.mul_(d_H), o, grad_input=d_o)
    aten.sigmoid_backward.grad_input(grad * j, i, grad_input=d_i)
    aten.sigmoid_backward.grad_input(grad * C_prev, f, grad_input=d_f)
    aten.tanh_backward.grad_input(i.mul_(grad), j, grad_input=d_j)
    return d_X, f.mul_(grad)


def _infer(definition: OperatorDef, op: Operator) -> None:
    """Widths are the weight's: that of Input may be unknown."""
    require_declared_widths(op, 3)
    source, weight = (op.block.var_recursive(op.input(slot)[0]) for slot in ("Input", "Weight"))
    if source.has_description() and weight.has_description():
        for slot in definition.outputs:
            for name in op.output(slot.name):
                shape = source.shape[0], weight.shape[slot.name == "Gate"]
                op.block.var_recursive(name).describe(shape=shape, dtype=source.dtype)


@operator(
    "gru_unit",
    gradient_lod="none",
    outputs="Gate ResetHiddenPrev Hidden",
    lod="",
    infer=_infer,
)
def gru_unit(
    Input: Tensor,
    HiddenPrev: Tensor,
    Weight: Tensor,
    Bias: Tensor | None = None,
    *,
    activation: int = 2,
    gate_activation: int = 1,
    origin_mode: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """One step of `gru`: Gate (rows, 3 * width), reset * HiddenPrev, and Hidden (rows, width).

    Activations by number: 0 identity, 1 sigmoid, 2 tanh, 3 relu.
    """
    require_widths(3, Input=Input, Weight=Weight, Bias=Bias)
    require_equal("HiddenPrev", HiddenPrev, "a state for each row", (len(Input), len(Weight)))
    gates = Input.clone() if Bias is None else Input + Bias.reshape(-1)
    gate, act = numbered_activation(gate_activation), numbered_activation(activation)
    one = gru_step(Weight, gate, act, origin_mode)
    reset, hidden = gru_forward(gates, [gates.shape[0]], one, HiddenPrev)
    return gates, reset, hidden


@gradient("gru_unit")
def gru_unit_grad(
    Input: Tensor,
    HiddenPrev: Tensor,
    Weight: Tensor,
    Bias: Tensor | None,
    Gate: Tensor,
    ResetHiddenPrev: Tensor,
    d_Hidden: Tensor,
    *,
    activation: int = 2,
    gate_activation: int = 1,
    origin_mode: bool = False,
) -> Grads:
    """Gradients of Input, HiddenPrev, Weight and Bias."""
    gate, act = numbered_activation(gate_activation), numbered_activation(activation)
    one = gru_step(Weight, gate, act, origin_mode)
    d_gates, d_state = gru_backward(d_Hidden.clone(), [Gate.shape[0]], one, Gate, HiddenPrev)
    d_weight = weight_gradient(d_gates, HiddenPrev, ResetHiddenPrev)
    d_bias = None if Bias is None else d_gates.sum(0).view(Bias.shape)
    return d_gates, d_state, d_weight, d_bias
