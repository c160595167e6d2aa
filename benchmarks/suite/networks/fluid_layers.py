"""Layers with named parameters: their names are those of the peers' counterparts."""

from __future__ import annotations

from typing import Any


def named(fluid: Any, name: str) -> dict[str, Any]:
    """Attributes of the parameters `name`.weight and `name`.bias."""
    return {
        "param_attr": fluid.ParamAttr(name=f"{name}.weight"),
        "bias_attr": fluid.ParamAttr(name=f"{name}.bias"),
    }


def linear(fluid: Any, x: Any, name: str, size: int, act: str | None = None, dims: int = 1) -> Any:
    return fluid.layers.fc(x, size, num_flatten_dims=dims, act=act, **named(fluid, name))


def table(
    fluid: Any,
    ids: Any,
    name: str,
    rows: int,
    width: int,
    *,
    sparse: bool = False,
    start: Any = None,
) -> Any:
    """Rows of a table: ids [batch, n] give [batch, n, width]."""
    attr = fluid.ParamAttr(name=f"{name}.weight", initializer=start)
    return fluid.embedding(ids, [rows, width], is_sparse=sparse, param_attr=attr)


def norm(fluid: Any, x: Any, name: str) -> Any:
    """Layer norm over the last of three axes."""
    return fluid.layers.layer_norm(x, begin_norm_axis=2, **named(fluid, name))


def class_loss(fluid: Any, logits: Any, label: Any) -> Any:
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(logits, label))


def yes_loss(fluid: Any, logits: Any, label: Any) -> Any:
    return fluid.layers.mean(fluid.layers.sigmoid_cross_entropy_with_logits(logits, label))
