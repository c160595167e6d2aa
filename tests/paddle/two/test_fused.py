"""Fused functions give what their parts give. Paddle 2.6.2 has them on GPUs only."""

from __future__ import annotations

from typing import Any

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
from refluid.paddle.tensor.math import add
from tests.paddle.two.networks import fresh

RANDOM = np.random.RandomState(5)
X = RANDOM.rand(2, 3, 8).astype("float32")
MASK = (RANDOM.rand(2, 2, 3, 3) * -4).astype("float32")


def _attention_of_parts(layer: Any, x: Any, mask: Any) -> Any:
    """The same by `nn.MultiHeadAttention` with the weights of a fused layer."""
    parts = nn.MultiHeadAttention(8, 2)
    weights, biases = layer.qkv_weight.numpy(), layer.qkv_bias.numpy()
    if not layer.transpose_qkv_wb:
        weights = weights.reshape(24, 8).T
    for number, name in enumerate(("q_proj", "k_proj", "v_proj")):
        columns = slice(8 * number, 8 * number + 8)
        part = getattr(parts, name)
        part.weight.set_value(weights[:, columns].copy())
        part.bias.set_value(biases.reshape(-1)[columns].copy())
    parts.out_proj.weight.set_value(layer.linear_weight.numpy())
    parts.out_proj.bias.set_value(layer.linear_bias.numpy())
    norm = (layer.pre_ln_scale, layer.pre_ln_bias)
    if layer.normalize_before:
        return add(x, parts(plain.layer_norm(x, 8, *norm), attn_mask=mask))
    made = add(x, parts(x, attn_mask=mask))
    return plain.layer_norm(made, 8, layer.ln_scale, layer.ln_bias)


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("masked", [False, True])
def test_attention(before: bool, columns: bool, masked: bool) -> None:
    with names.guard(), mode.eager(CPUPlace()):
        attr = nn.initializer.Normal(0.0, 0.5)
        layer = fused.FusedMultiHeadAttention(
            *(8, 2, 0.0, 0.0),
            normalize_before=before,
            transpose_qkv_wb=columns,
            qkv_bias_attr=attr,
            linear_bias_attr=attr,
        )
        mask = to_tensor(MASK) if masked else None
        x, y = (to_tensor(X, stop_gradient=False) for _ in range(2))
        found, wanted = layer(x, attn_mask=mask), _attention_of_parts(layer, y, mask)
        assert found.numpy() == pytest.approx(wanted.numpy(), abs=2e-6)
        for one in (found, wanted):
            (one * one).backward()
        assert x.gradient() == pytest.approx(y.gradient(), abs=2e-5)


def test_attention_in_programs() -> None:
    """Its gradient, by differences."""
    main, startup = static.Program(), static.Program()
    with static.program_guard(main, startup), names.guard():
        x = static.data("x", [2, 3, 8], "float32")
        x.stop_gradient = False
        layer = fused.FusedMultiHeadAttention(8, 2, 0.0, 0.0)
        out = layer(x)
        loss = (out * out * out).sum()
        (gradient,) = static.gradients([loss], [x])
    exe = static.Executor(CPUPlace())
    exe.run(startup)
    found = exe.run(main, {"x": X}, [gradient])[0]
    along = RANDOM.randn(*X.shape).astype("float32")
    more, less = (exe.run(main, {"x": X + s * along}, [loss])[0] for s in np.float32([1e-2, -1e-2]))
    assert float((more - less).item()) / 2e-2 == pytest.approx(
        float((found * along).sum()), rel=1e-2
    )


@pytest.mark.parametrize("before", [False, True])
@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_feedforward(before: bool, activation: str) -> None:
    with names.guard(), mode.eager(CPUPlace()):
        layer = fused.FusedFeedForward(8, 16, 0.0, activation=activation, normalize_before=before)
        x = to_tensor(X)
        own = layer.state_dict()
        inside = plain.layer_norm(x, 8) if before else x
        hidden = plain.linear(inside, own["_linear1_weight"], own["_linear1_bias"])
        hidden = getattr(plain, activation)(hidden)
        wanted = add(x, plain.linear(hidden, own["_linear2_weight"], own["_linear2_bias"]))
        wanted = wanted if before else plain.layer_norm(wanted, 8)
        assert layer(x).numpy() == pytest.approx(wanted.numpy(), abs=2e-6)


def test_linear_maps() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        x, w, b = to_tensor(X), to_tensor(X[0].T.copy()), to_tensor(X[0, :, 0].copy())
        wanted = plain.linear(x, w, b).numpy()
        assert functional.fused_linear(x, w, b).numpy() == pytest.approx(wanted, abs=1e-6)
        turned = to_tensor(X[0].copy())
        found = functional.fused_matmul_bias(x, turned, b, transpose_y=True)
        assert found.numpy() == pytest.approx(wanted, abs=1e-6)
        found = functional.fused_linear_activation(x, w, b, activation="relu")
        assert found.numpy() == pytest.approx(np.maximum(wanted, 0), abs=1e-6)
        assert functional.fused_linear(x, w).shape == [2, 3, 3]
        layer = fused.FusedLinear(8, 4, transpose_weight=True)
        assert layer.weight.shape == [4, 8]
        assert layer(x).shape == [2, 3, 4]


def test_sums_with_dropout() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        x = to_tensor(X)
        assert fused.FusedDropoutAdd(0.0)(x, x).numpy() == pytest.approx(2 * X)
        layer = fused.FusedBiasDropoutResidualLayerNorm(8, 0.0)
        wanted = plain.layer_norm(add(x, x), 8).numpy()
        assert layer(x, x).numpy() == pytest.approx(wanted, abs=1e-6)
        dropped = fused.FusedDropoutAdd(0.5)(
            to_tensor(np.ones((40, 40), "float32")), to_tensor(0.0)
        )
        assert 0.4 < (dropped.numpy() == 0).mean() < 0.6


def test_a_fused_encoder_trains_in_a_program() -> None:
    with fresh() as (main, startup):
        x = static.data("x", [None, 3, 8])
        layer = fused.FusedTransformerEncoderLayer(8, 2, 16, dropout_rate=0.1)
        loss = plain.mse_loss(layer(x), x)
        optimizer.Adam(0.01).minimize(loss)
        types = [op.type for op in main.global_block().ops]
        assert types.count("fused_gemm_epilogue") == 4
        exe = static.Executor("cpu")
        exe.run(startup)
        found = [float(exe.run(main, {"x": X}, [loss])[0]) for _ in range(30)]
    assert found[-1] < found[0] / 2


def test_what_is_refused() -> None:
    with names.guard(), mode.eager(CPUPlace()):
        layer = fused.FusedFeedForward(8, 16, ring_id=0)
        with pytest.raises(NotImplementedError, match="tensor parallelism"):
            layer(to_tensor(X))
