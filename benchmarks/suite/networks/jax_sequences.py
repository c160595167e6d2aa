"""Recurrent networks and transformers in JAX (see `jax_networks`). Sequences come padded."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from benchmarks.suite.networks.jax_layers import W, class_loss, linear, norm


def _lstm(inner: Any, x: Any, state: Any) -> Any:
    """All hidden states [batch, time, width] of x [batch, time, 4 width] (gates i, f, g, o)."""

    def step(state: Any, fresh: Any) -> Any:
        state = _gated(fresh + state[0] @ inner, state[1])
        return state, state[0]

    state, found = jax.lax.scan(step, state, x.swapaxes(0, 1))
    return found.swapaxes(0, 1), state


def _gated(gates: Any, cell: Any) -> Any:
    i, f, g, o = jnp.split(gates, 4, 1)
    cell = cell * jax.nn.sigmoid(f) + jax.nn.sigmoid(i) * jnp.tanh(g)
    return jnp.tanh(cell) * jax.nn.sigmoid(o), cell


def _whole_lstm(w: W, x: Any, name: str) -> Any:
    fresh = x @ w[f"{name}.weight.ih"].T + w[f"{name}.bias.ih"]
    inner = w[f"{name}.weight.hh"].T
    empty = jnp.zeros((x.shape[0], inner.shape[0]))
    return _lstm(inner, fresh, (empty, empty))


def lstm(w: W, rows: W, feed: W) -> Any:
    hidden = w["words.weight"][feed["words"]]
    for name in ("lstm0", "lstm1"):
        hidden, _ = _whole_lstm(w, hidden, name)
    return class_loss(linear(w, hidden, "out"), feed["next"])


def lstm_lod(w: W, rows: W, feed: W) -> Any:
    hidden, _ = _whole_lstm(w, w["words.weight"][feed["words"]], "lstm")
    hidden = hidden.reshape(-1, hidden.shape[-1])[feed["rows"]]
    return class_loss(linear(w, hidden, "out"), feed["next_rows"])


def _gru(w: W, x: Any, name: str) -> Any:
    width = x.shape[-1]
    memory = w[f"{name}.weight"].reshape(-1)
    gates = memory[: 2 * width * width].reshape(width, -1)
    candidate = memory[2 * width * width :].reshape(width, -1)
    fresh = x @ w[f"{name}.input.weight"] + w[f"{name}.bias"].reshape(-1)

    def step(hidden: Any, now: Any) -> Any:
        both = jax.nn.sigmoid(now[:, : 2 * width] + hidden @ gates)
        update, reset = jnp.split(both, 2, 1)
        new = jnp.tanh(now[:, 2 * width :] + (reset * hidden) @ candidate)
        hidden = hidden + update * (new - hidden)
        return hidden, hidden

    empty = jnp.zeros((x.shape[0], width))
    return jax.lax.scan(step, empty, fresh.swapaxes(0, 1))[1].swapaxes(0, 1)


def _crf_loss(scores: Any, tags: Any, mask: Any, weight: Any) -> Any:
    start, end, move = weight[0], weight[1], weight[2:]

    def step(alpha: Any, now: Any) -> Any:
        score, real = now
        sums = jax.nn.logsumexp(alpha[:, :, None] + move, 1) + score
        return jnp.where(real[:, None], sums, alpha), None

    later = (scores[:, 1:].swapaxes(0, 1), mask[:, 1:].T)
    alpha, _ = jax.lax.scan(step, start + scores[:, 0], later)
    total = jax.nn.logsumexp(alpha + end, 1)
    own = (jnp.take_along_axis(scores, tags[:, :, None], 2)[:, :, 0] * mask).sum(1)
    moves = (move[tags[:, :-1], tags[:, 1:]] * mask[:, 1:]).sum(1)
    last = jnp.take_along_axis(tags, mask.sum(1, keepdims=True) - 1, 1)[:, 0]
    return (total - own - moves - start[tags[:, 0]] - end[last]).mean()


def tagger(w: W, rows: W, feed: W) -> Any:
    x = w["words.weight"][feed["words"]]
    turned = feed["turned"][:, :, None]
    back = _gru(w, jnp.take_along_axis(x, turned, 1), "back")
    both = jnp.concatenate([_gru(w, x, "ahead"), jnp.take_along_axis(back, turned, 1)], 2)
    return _crf_loss(linear(w, both, "scores"), feed["tags"], feed["mask"], w["crf.weight"])


def seq2seq(w: W, rows: W, feed: W) -> Any:
    memory, state = _whole_lstm(w, w["source.weight"][feed["source"]], "encoder")
    bias = feed["source_bias"][:, 0, 0]
    inner = jnp.concatenate([w["decoder.weight.ih"], w["decoder.weight.hh"]], 1).T

    def step(state: Any, now: Any) -> Any:
        hidden, cell, attended = state
        gates = jnp.concatenate([now, attended, hidden], 1) @ inner + w["decoder.bias.ih"]
        hidden, cell = _gated(gates, cell)
        weights = jax.nn.softmax(jnp.einsum("bw,btw->bt", hidden, memory) + bias)
        context = jnp.einsum("bt,btw->bw", weights, memory)
        attended = jnp.tanh(linear(w, jnp.concatenate([context, hidden], 1), "attend"))
        return (hidden, cell, attended), attended

    target = w["target.weight"][feed["target"]].swapaxes(0, 1)
    _, found = jax.lax.scan(step, (*state, jnp.zeros_like(state[0])), target)
    return class_loss(linear(w, found.swapaxes(0, 1), "out"), feed["next"])


def _attention(w: W, name: str, queries: Any, memory: Any, bias: Any, heads: int) -> Any:
    def parted(x: Any, part: str) -> Any:
        rows = linear(w, x, f"{name}.{part}")
        return rows.reshape(*rows.shape[:2], heads, -1).swapaxes(1, 2)

    asked, keys, values = parted(queries, "query"), parted(memory, "key"), parted(memory, "value")
    scores = asked @ keys.swapaxes(2, 3) * asked.shape[-1] ** -0.5
    mixed = (jax.nn.softmax(scores + bias) @ values).swapaxes(1, 2)
    return linear(w, mixed.reshape(*mixed.shape[:2], -1), f"{name}.out")


def _inner(w: W, x: Any, name: str, act: Any) -> Any:
    return norm(
        w, x + linear(w, act(linear(w, x, f"{name}.wide")), f"{name}.narrow"), f"{name}.norm2"
    )


def _encoder(w: W, x: Any, name: str, bias: Any, heads: int, act: Any) -> Any:
    x = norm(w, x + _attention(w, f"{name}.self", x, x, bias, heads), f"{name}.norm1")
    return _inner(w, x, name, act)


def transformer(w: W, rows: W, feed: W) -> Any:
    bias = feed["source_bias"]
    memory = norm(w, w["source.weight"][feed["source"]], "source_norm")
    for i in range(3):
        memory = _encoder(w, memory, f"encoders.{i}", bias, 4, jax.nn.relu)
    x = norm(w, w["target.weight"][feed["target"]], "target_norm")
    for i in range(3):
        name = f"decoders.{i}"
        seen = _attention(w, f"{name}.self", x, x, feed["causal_bias"], 4)
        x = norm(w, x + seen, f"{name}.norm1")
        seen = _attention(w, f"{name}.cross", x, memory, bias, 4)
        x = _inner(w, norm(w, x + seen, f"{name}.norm3"), name, jax.nn.relu)
    return class_loss(linear(w, x, "out"), feed["next"])


def bert(w: W, rows: W, feed: W) -> Any:
    def gelu(x: Any) -> Any:
        return jax.nn.gelu(x, approximate=False)

    x = w["words.weight"][feed["words"]] + w["positions.weight"][feed["positions"]]
    x = norm(w, x + w["types.weight"][feed["types"]], "norm")
    for i in range(12):
        x = _encoder(w, x, f"encoders.{i}", feed["bias"], 12, gelu)
    follows = linear(w, jnp.tanh(linear(w, x[:, 0], "pool")), "follows")
    hidden = x.reshape(-1, x.shape[-1])[feed["masked"][:, 0]]
    logits = gelu(linear(w, hidden, "masked")) @ w["words.weight"].T
    return class_loss(logits, feed["word"]) + class_loss(follows, feed["follows"])
