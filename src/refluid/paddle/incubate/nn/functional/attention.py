"""The two halves of a Transformer's layer, each as one function."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.ir.variable import Variable
from refluid.paddle.incubate.nn.functional.products import fused_dropout_add, fused_matmul_bias
from refluid.paddle.nn.functional.activation import softmax
from refluid.paddle.nn.functional.norm import layer_norm
from refluid.paddle.nn.functional.shapes import dropout
from refluid.paddle.nn.layer.attention import as_added
from refluid.paddle.tensor import linalg, manipulation, math
from refluid.paddle.tensor.making import rank_of


def fused_feedforward(
    x: Variable,
    linear1_weight: Variable,
    linear2_weight: Variable,
    linear1_bias: Variable | None = None,
    linear2_bias: Variable | None = None,
    ln1_scale: Variable | None = None,
    ln1_bias: Variable | None = None,
    ln2_scale: Variable | None = None,
    ln2_bias: Variable | None = None,
    dropout1_rate: float = 0.5,
    dropout2_rate: float = 0.5,
    activation: str = "relu",
    ln1_epsilon: float = 1e-5,
    ln2_epsilon: float = 1e-5,
    pre_layer_norm: bool = False,
    training: bool = True,
    mode: str = "upscale_in_train",
    ring_id: int = -1,
    add_residual: bool = True,
    name: str | None = None,
) -> Variable:
    """x + dropout(linear2(dropout(act(linear1(x))))), normalised before or after.

    ring_id: of tensor parallelism, which refluid doesn't have: NotImplementedError unless -1.
    """
    _require_alone(ring_id)
    size = int(x.shape[-1])
    inside = layer_norm(x, size, ln1_scale, ln1_bias, ln1_epsilon) if pre_layer_norm else x
    hidden = op(activation, {"X": fused_matmul_bias(inside, linear1_weight, linear1_bias)})
    hidden = dropout(hidden, dropout1_rate, None, training, mode)
    out = fused_matmul_bias(hidden, linear2_weight, linear2_bias)
    out = _around(out, x, dropout2_rate, training, mode, add_residual)
    return out if pre_layer_norm else layer_norm(out, size, ln2_scale, ln2_bias, ln2_epsilon)


def _around(
    out: Variable, x: Variable, rate: float, training: bool, mode: str, adds: bool
) -> Variable:
    if adds:
        return fused_dropout_add(out, x, rate, training, mode)
    return dropout(out, rate, None, training, mode)


def _require_alone(ring_id: int) -> None:
    if ring_id != -1:
        raise NotImplementedError("refluid has no tensor parallelism: ring_id is -1")


def fused_multi_head_attention(
    x: Variable,
    qkv_weight: Variable,
    linear_weight: Variable,
    pre_layer_norm: bool = False,
    pre_ln_scale: Variable | None = None,
    pre_ln_bias: Variable | None = None,
    ln_scale: Variable | None = None,
    ln_bias: Variable | None = None,
    pre_ln_epsilon: float = 1e-05,
    qkv_bias: Variable | None = None,
    linear_bias: Variable | None = None,
    cache_kv: Variable | None = None,
    attn_mask: Variable | None = None,
    dropout_rate: float = 0.5,
    attn_dropout_rate: float = 0.5,
    ln_epsilon: float = 1e-05,
    training: bool = True,
    mode: str = "upscale_in_train",
    ring_id: int = -1,
    add_residual: bool = True,
    num_heads: int = -1,
    transpose_qkv_wb: bool = False,
    name: str | None = None,
) -> Any:
    """x + dropout(linear(attention of x to itself)), normalised before or after.

    x: (N, length, width). qkv_weight: (3, heads, size, width), or (width, 3 * width) with
    transpose_qkv_wb. cache_kv: NotImplementedError.
    """
    _require_alone(ring_id)
    if cache_kv is not None:
        raise NotImplementedError("refluid's fused attention has no cache")
    width = int(x.shape[-1])
    inside = (
        layer_norm(x, width, pre_ln_scale, pre_ln_bias, pre_ln_epsilon) if pre_layer_norm else x
    )
    heads = num_heads if transpose_qkv_wb else int(qkv_weight.shape[1])
    joined = _joined(inside, qkv_weight, qkv_bias, width, transpose_qkv_wb)
    parted = manipulation.reshape(joined, [0, 0, 3, heads, width // heads])
    turned = manipulation.transpose(parted, [2, 0, 3, 1, 4])
    q, k, v = manipulation.unbind(turned, 0)
    seen = _seen(q, k, v, attn_mask, attn_dropout_rate if training else 0.0, mode)
    rows = manipulation.reshape(manipulation.transpose(seen, [0, 2, 1, 3]), [0, 0, width])
    out = fused_matmul_bias(rows, linear_weight, linear_bias)
    out = _around(out, x, dropout_rate, training, mode, add_residual)
    return out if pre_layer_norm else layer_norm(out, width, ln_scale, ln_bias, ln_epsilon)


def _joined(
    x: Variable, weight: Variable, bias: Variable | None, width: int, columns: bool
) -> Variable:
    """Queries, keys and values of all heads by one product."""
    if not columns:
        flat = op("reshape2", {"X": weight}, {"shape": [-1, width]})
        weight = op("transpose2", {"X": flat}, {"axis": [1, 0]})
        if bias is not None and rank_of(bias) > 1:
            bias = op("reshape2", {"X": bias}, {"shape": [-1]})
    return fused_matmul_bias(x, weight, bias)


def _seen(
    q: Variable, k: Variable, v: Variable, mask: Variable | None, rate: float, mode: str
) -> Variable:
    """softmax(q · kᵀ / sqrt(size) + mask) · v: one operator where nothing is dropped."""
    added = as_added(mask, q.dtype)
    if rate == 0.0:
        given = {"Q": q, "K": k, "V": v, "Mask": added}
        return op("attention_of_heads", given, {}, ("Out", "Kept"))[0]
    scores = linalg.matmul(math.scale(q, float(q.shape[-1]) ** -0.5), k, transpose_y=True)
    if added is not None:
        scores = math.add(scores, added)
    return linalg.matmul(dropout(softmax(scores), rate, None, True, mode), v)
