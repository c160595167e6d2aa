"""Several fused Transformer layers, positions as rotations, and sequences of given lengths."""

from __future__ import annotations

import numpy as np
import pytest

from refluid.core import names
from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import nn, optimizer, static
from refluid.paddle.incubate import nn as fused
from refluid.paddle.incubate.nn import functional
from refluid.paddle.nn import functional as plain
from refluid.paddle.tensor.creation import to_tensor
from tests.paddle.two.networks import fresh

RANDOM = np.random.RandomState(6)


def _drawn(*shape: int) -> np.ndarray:
    return RANDOM.randn(*shape).astype("float32")


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("turned", [True, False])
def test_layers_one_after_the_other(before: bool, turned: bool) -> None:
    with names.guard(), mode.eager(CPUPlace()):
        attr = nn.initializer.Normal(0.0, 0.4)
        biases = {f"{one}_bias_attrs": attr for one in ("ln", "qkv", "linear", "ffn1", "ffn_ln")}
        layer = fused.FusedMultiTransformer(
            *(8, 2, 12), normalize_before=before, num_layers=2, trans_qkvw=turned, **biases
        )
        assert len(layer.parameters()) == 24
        x, mask = to_tensor(_drawn(2, 5, 8)), to_tensor(_drawn(2, 1, 5, 5))
        wanted = x
        for n in range(2):
            own = {name[:-2]: one for name, one in layer.state_dict().items() if name[-1] == str(n)}
            alike = fused.FusedTransformerEncoderLayer(
                8, 2, 12, 0.0, "gelu", normalize_before=before
            )
            norms = ("pre_ln", "_ln1") if before else ("ln", "_ln2")
            weight = own["qkv_weight"].numpy()
            alike.fused_attn.qkv_weight.set_value(
                weight if turned else weight.transpose(1, 2, 3, 0).copy()
            )
            for name in ("qkv_bias", "linear_weight", "linear_bias"):
                getattr(alike.fused_attn, name).set_value(own[name])
            for kind in ("scale", "bias"):
                getattr(alike.fused_attn, f"{norms[0]}_{kind}").set_value(own[f"ln_{kind}"])
                getattr(alike.ffn, f"{norms[1]}_{kind}").set_value(own[f"ffn_ln_{kind}"])
            for number in (1, 2):
                for kind in ("weight", "bias"):
                    part = getattr(alike.ffn, f"_linear{number}_{kind}")
                    part.set_value(own[f"ffn{number}_{kind}"])
            wanted = alike(wanted, mask)
        found = layer(x, mask)
        np.testing.assert_allclose(found.numpy(), wanted.numpy(), rtol=1e-4, atol=1e-5)
        with pytest.raises(NotImplementedError, match="without caches"):
            layer(x, mask, caches=[x])


def test_they_train_in_a_program() -> None:
    with fresh() as (main, startup):
        x = static.data("x", [None, 5, 8])
        layer = fused.FusedMultiTransformer(8, 2, 12, 0.1, num_layers=2)
        loss = plain.mse_loss(layer(x), x)
        optimizer.Adam(0.01).minimize(loss)
        exe = static.Executor("cpu")
        exe.run(startup)
        value = _drawn(2, 5, 8)
        found = [float(exe.run(main, {"x": value}, [loss])[0]) for _ in range(30)]
    assert found[-1] < found[0] / 2


def _turned(x: np.ndarray, sin: np.ndarray, cos: np.ndarray, neighbours: bool) -> np.ndarray:
    """Complex numbers of each pair, times the angle's."""
    size = x.shape[-1]
    a, b = (x[..., ::2], x[..., 1::2]) if neighbours else (x[..., : size // 2], x[..., size // 2 :])
    one = (slice(None, None, 2),) if neighbours else (slice(size // 2),)
    s, c = sin[..., one[0]], cos[..., one[0]]
    real, imag = a * c - b * s, b * c + a * s
    if neighbours:
        return np.stack([real, imag], -1).reshape(x.shape)
    return np.concatenate([real, imag], -1)


@pytest.mark.parametrize("neighbours", [True, False])
@pytest.mark.parametrize("given", [True, False])
def test_positions_as_rotations(neighbours: bool, given: bool) -> None:
    x, k = _drawn(2, 5, 3, 6), _drawn(2, 5, 3, 6)
    rates = np.outer(np.arange(5), 10000.0 ** (-np.arange(0, 6, 2) / 6))
    angles = np.repeat(rates, 2, 1) if neighbours else np.concatenate([rates, rates], 1)
    places = RANDOM.randint(0, 5, (2, 5)) if given else np.tile(np.arange(5), (2, 1))
    taken = angles[places][:, :, None]
    with mode.eager(CPUPlace()):
        tables = {}
        if given:
            tables = {
                "sin": to_tensor(np.sin(angles).astype("float32")[None, :, None]),
                "cos": to_tensor(np.cos(angles).astype("float32")),
                "position_ids": to_tensor(places),
            }
        q, turned, none = functional.fused_rotary_position_embedding(
            to_tensor(x), to_tensor(k), use_neox_rotary_style=neighbours, **tables
        )
    assert none is None
    for found, one in ((q, x), (turned, k)):
        wanted = _turned(one, np.sin(taken), np.cos(taken), neighbours)
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_sequences_of_given_lengths(causal: bool) -> None:
    q, k, v, mask = _drawn(2, 3, 4, 6), _drawn(2, 3, 5, 6), _drawn(2, 3, 5, 6), _drawn(2, 1, 4, 5)
    rows, columns = np.array([[4], [2]], "int32"), np.array([[5], [3]], "int32")
    with mode.eager(CPUPlace()):
        given = [to_tensor(one) for one in (q, k, v, rows, columns, mask)]
        found = functional.variable_length_memory_efficient_attention(
            *given, scale=0.3, causal=causal, pre_cache_length=1
        ).numpy()
    for n in range(2):
        scores = q[n] @ k[n].swapaxes(1, 2) * 0.3 + mask[n]
        hidden = np.arange(5)[None, :] >= columns[n, 0]
        if causal:
            hidden = hidden | (np.arange(5)[None, :] > np.arange(4)[:, None] + 1)
        scores = np.where(hidden, -1e9, scores)
        shares = np.exp(scores - scores.max(-1, keepdims=True))
        wanted = shares / shares.sum(-1, keepdims=True) @ v[n]
        wanted[:, rows[n, 0] :] = 0
        np.testing.assert_allclose(found[n], wanted, rtol=1e-4, atol=1e-5)
