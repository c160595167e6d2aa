"""Layers in JAX, as functions of weights in Fluid's layout."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp

W = Mapping[str, Any]


def linear(w: W, x: Any, name: str) -> Any:
    return x @ w[f"{name}.weight"] + w[f"{name}.bias"]


def norm(w: W, x: Any, name: str) -> Any:
    """Layer norm over the last axis."""
    mean = x.mean(-1, keepdims=True)
    variance = jnp.square(x - mean).mean(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(variance + 1e-5) * w[f"{name}.weight"] + w[f"{name}.bias"]


def convolved(w: W, x: Any, name: str, stride: int = 1, padding: int = 0, groups: int = 1) -> Any:
    return jax.lax.conv_general_dilated(
        x,
        w[f"{name}.weight"],
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
        feature_group_count=groups,
    )


def channels(value: Any) -> Any:
    """A value per channel, as it meets images."""
    return value[None, :, None, None]


def batch_norm(w: W, x: Any, name: str) -> Any:
    """Normed by the batch; the running statistics aren't needed for training."""
    mean = x.mean((0, 2, 3))
    variance = jnp.square(x).mean((0, 2, 3)) - jnp.square(mean)
    scale = jax.lax.rsqrt(variance + 1e-5) * w[f"{name}.weight"]
    return (x - channels(mean)) * channels(scale) + channels(w[f"{name}.bias"])


def max_pool(x: Any, size: int, stride: int, padding: int = 0) -> Any:
    window, strides = (1, 1, size, size), (1, 1, stride, stride)
    pads = ((0, 0), (0, 0), (padding, padding), (padding, padding))
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, strides, pads)


def class_loss(logits: Any, label: Any) -> Any:
    """Mean cross entropy; label has the shape of logits but for the last axis, or 1 there."""
    logits = logits.reshape(-1, logits.shape[-1])
    found = jax.nn.log_softmax(logits)
    return -jnp.take_along_axis(found, label.reshape(-1, 1), 1).mean()


def yes_loss(logits: Any, label: Any) -> Any:
    return (jnp.maximum(logits, 0) - logits * label + jnp.log1p(jnp.exp(-abs(logits)))).mean()
