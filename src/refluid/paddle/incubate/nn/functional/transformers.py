"""Several Transformer layers as one function, positions as rotations, given lengths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from refluid.ir.variable import Variable
from refluid.paddle.incubate.nn.functional.attention import (
    fused_feedforward,
    fused_multi_head_attention,
)
from refluid.paddle.nn.functional.activation import softmax
from refluid.paddle.tensor import creation, linalg, logic, manipulation, math
from refluid.paddle.tensor.making import cast_to
from refluid.paddle.tensor.search import gather, where

Listed = Sequence[Variable] | None


def fused_multi_transformer(
    x: Variable,
    ln_scales: Sequence[Variable],
    ln_biases: Sequence[Variable],
    qkv_weights: Sequence[Variable],
    qkv_biases: Listed,
    linear_weights: Sequence[Variable],
    linear_biases: Listed,
    ffn_ln_scales: Sequence[Variable],
    ffn_ln_biases: Sequence[Variable],
    ffn1_weights: Sequence[Variable],
    ffn1_biases: Listed,
    ffn2_weights: Sequence[Variable],
    ffn2_biases: Listed,
    pre_layer_norm: bool = True,
    epsilon: float = 1e-05,
    cache_kvs: Listed = None,
    pre_caches: Listed = None,
    seq_lens: Variable | None = None,
    rotary_embs: Variable | None = None,
    time_step: Variable | None = None,
    attn_mask: Variable | None = None,
    dropout_rate: float = 0.0,
    rotary_emb_dims: int = 0,
    activation: str = "gelu",
    training: bool = False,
    mode: str = "upscale_in_train",
    trans_qkvw: bool = True,
    ring_id: int = -1,
    name: str | None = None,
) -> Variable:
    """Layers of attention and feedforward, one after the other; a list of numbers for each.

    x: (N, length, width). qkv_weights: (3, heads, size, width), (width, 3, heads, size) without
    trans_qkvw. What generates text (caches, seq_lens, rotary_embs, time_step) is a
    NotImplementedError.
    """
    _refuse_generating((cache_kvs, pre_caches, seq_lens, rotary_embs, time_step), rotary_emb_dims)
    both = {"pre_layer_norm": pre_layer_norm, "training": training, "mode": mode}
    inside = {"dropout": dropout_rate, "activation": activation, "mask": attn_mask}
    numbers = (ln_scales, ln_biases, qkv_weights, qkv_biases, linear_weights, linear_biases)
    later = (ffn_ln_scales, ffn_ln_biases, ffn1_weights, ffn1_biases, ffn2_weights, ffn2_biases)
    for n in range(len(qkv_weights)):
        own = [None if one is None else one[n] for one in (*numbers, *later)]
        x = _layer(x, own, trans_qkvw, epsilon, inside, {**both, "ring_id": ring_id})
    return x


def _refuse_generating(given: Sequence[Any], rotates: int) -> None:
    if any(one is not None for one in given) or rotates:
        raise NotImplementedError(
            "refluid's fused_multi_transformer trains and evaluates whole sequences: without "
            "caches, seq_lens, rotary_embs and time_step"
        )


def _layer(
    x: Variable,
    own: Sequence[Any],
    turned: bool,
    epsilon: float,
    inside: dict[str, Any],
    both: dict[str, Any],
) -> Variable:
    """One layer. own: its numbers, in the order of the function's arguments."""
    scale, bias, weight, qkv_bias, linear, linear_bias, *later = own
    scale2, bias2, first, first_bias, second, second_bias = later
    before, rate = both["pre_layer_norm"], inside["dropout"]
    norm, beside = ("pre_ln", "ln1") if before else ("ln", "ln2")
    x = fused_multi_head_attention(
        x,
        weight if turned else manipulation.transpose(weight, [1, 2, 3, 0]),
        linear,
        qkv_bias=qkv_bias,
        linear_bias=linear_bias,
        attn_mask=inside["mask"],
        dropout_rate=rate,
        attn_dropout_rate=rate,
        **{f"{norm}_epsilon": epsilon, f"{norm}_scale": scale, f"{norm}_bias": bias, **both},
    )
    norms = {f"{beside}_epsilon": epsilon, f"{beside}_scale": scale2, f"{beside}_bias": bias2}
    return fused_feedforward(
        *(x, first, second, first_bias, second_bias),
        dropout1_rate=rate,
        dropout2_rate=rate,
        activation=inside["activation"],
        **{**norms, **both},
    )


def fused_rotary_position_embedding(
    q: Variable,
    k: Variable | None = None,
    v: Variable | None = None,
    sin: Variable | None = None,
    cos: Variable | None = None,
    position_ids: Variable | None = None,
    use_neox_rotary_style: bool = True,
) -> tuple[Variable | None, ...]:
    """Each turned by angles that follow from its position.

    q, k, v: (N, length, heads, size). sin, cos: (length, size) or (1, length, 1, size); by powers
    of 10000 unless given. position_ids: (N, length) places in them. use_neox_rotary_style: pairs
    are neighbours, else elements of the two halves.
    """
    length, size = int(q.shape[1]), int(q.shape[3])
    if size % 2:
        raise ValueError(f"the size of heads must be a multiple of 2, not {size}")
    pair = _neighbours if use_neox_rotary_style else _halves
    if sin is None or cos is None:
        angles = _angles(length, size, use_neox_rotary_style)
        sin, cos = math.sin(angles), math.cos(angles)
    tables = []
    for one in (sin, cos):
        rows = manipulation.reshape(one, [-1, size])
        if position_ids is None:
            tables.append(manipulation.reshape(rows, [1, -1, 1, size]))
            continue
        taken = gather(rows, manipulation.reshape(position_ids, [-1]))
        tables.append(manipulation.reshape(taken, [-1, length, 1, size]))
    turns, keeps = tables
    return tuple(None if one is None else _turned(one, turns, keeps, pair) for one in (q, k, v))


def _angles(length: int, size: int, neighbours: bool) -> Variable:
    powers = creation.arange(0, size, 2, "float32")
    rates = math.pow(creation.full([size // 2], 10000.0), math.scale(powers, -1.0 / size))
    each = linalg.outer(creation.arange(0, length, 1, "float32"), rates)
    if not neighbours:
        return manipulation.concat([each, each], -1)
    return manipulation.reshape(manipulation.stack([each, each], -1), [length, size])


def _turned(
    x: Variable, sin: Variable, cos: Variable, pair: Callable[[Variable], Variable]
) -> Variable:
    kept, moved = math.multiply(x, cast_to(cos, x.dtype)), pair(x)
    return math.add(kept, math.multiply(moved, cast_to(sin, x.dtype)))


def _neighbours(x: Variable) -> Variable:
    """(a, b) of each two neighbours as (-b, a)."""
    parted = manipulation.reshape(x, [*x.shape[:-1], int(x.shape[-1]) // 2, 2])
    a, b = manipulation.unbind(parted, -1)
    return manipulation.reshape(manipulation.stack([math.neg(b), a], -1), list(x.shape))


def _halves(x: Variable) -> Variable:
    """The halves a and b as -b and a."""
    a, b = manipulation.split(x, 2, -1)
    return manipulation.concat([math.neg(b), a], -1)


def variable_length_memory_efficient_attention(
    query: Variable,
    key: Variable,
    value: Variable,
    seq_lens: Variable,
    kv_seq_lens: Variable,
    mask: Variable | None = None,
    scale: float | None = None,
    causal: bool = False,
    pre_cache_length: int = 0,
) -> Variable:
    """softmax(query · keyᵀ · scale + mask) · value, of sequences of these lengths.

    query, key, value: (N, heads, length, size); lengths: (N, 1). Rows after a sequence's end are
    0. scale: 1 / sqrt(size) unless given. causal: none sees what comes later, but for the first
    `pre_cache_length` keys.
    """
    rows, columns = int(query.shape[2]), int(key.shape[2])
    usual = float(query.shape[3]) ** -0.5 if scale is None else scale
    scores = linalg.matmul(math.scale(query, usual), key, transpose_y=True)
    if mask is not None:
        scores = math.add(scores, mask)
    there = _before(columns, kv_seq_lens, [-1, 1, 1, columns])
    if causal:
        place = manipulation.reshape(creation.arange(0, rows, 1, "int64"), [1, 1, rows, 1])
        other = manipulation.reshape(creation.arange(0, columns, 1, "int64"), [1, 1, 1, columns])
        last = math.add(place, creation.full([1], pre_cache_length, "int64"))
        there = logic.logical_and(there, logic.less_equal(other, last))
    seen = manipulation.broadcast_to(there, list(scores.shape))
    scores = where(seen, scores, creation.full_like(scores, -1e9))
    found = linalg.matmul(softmax(scores), value)
    alive = _before(rows, seq_lens, [-1, 1, rows, 1])
    return math.multiply(found, cast_to(alive, found.dtype))


def _before(count: int, lengths: Variable, shape: list[int]) -> Variable:
    places = manipulation.reshape(creation.arange(0, count, 1, "int64"), [1, count])
    given = cast_to(manipulation.reshape(lengths, [-1, 1]), places.dtype)
    return manipulation.reshape(logic.less_than(places, given), shape)
