"""`decorate`: networks whose parameters are half, and optimizers that keep float32 ones."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refluid.core.dtypes import VarType, to_torch
from refluid.fluid.dygraph.layers import Layer
from refluid.paddle.amp.casting import half_here
from refluid.paddle.nn.layer.norm import FULL_PRECISION
from refluid.paddle.optimizer.masters import MasterWeights
from refluid.paddle.optimizer.updating import Optimizer

_SAVED = ("float16", "bfloat16", "float32", "float64")


def decorate(
    models: Any,
    optimizers: Any = None,
    level: str = "O1",
    dtype: str = "float16",
    master_weight: bool | None = None,
    save_dtype: str | None = None,
    master_grad: bool = False,
    excluded_layers: Any = None,
) -> Any:
    """Makes networks half at level `O2`; returns (models, optimizers), or models alone.

    At `O1` nothing changes. At `O2` all parameters become half but those of norms and of
    `excluded_layers` (layers or classes of layers). Optimizers then update float32 copies of
    them, unless `master_weight` is False; gradients become float32 before they are clipped and
    decayed, as with `master_grad`. save_dtype: what `state_dict` of the models gives.

    Raises ValueError for another level or type, TypeError for what is no layer or optimizer.
    """
    if level not in ("O1", "O2"):
        raise ValueError(
            "level should be O1 or O2, O1 represent AMP train mode, O2 represent Pure fp16 "
            "train mode."
        )
    layers, trained = (
        _several(models, Layer, "models"),
        _several(optimizers, Optimizer, "optimizers"),
    )
    if level == "O2":
        half = to_torch(half_here(dtype))
        if save_dtype is not None and save_dtype not in _SAVED:
            raise ValueError(
                f"save_dtype can only be float16, bfloat16, float32 or float64, but your input "
                f"save_dtype is {save_dtype}."
            )
        spared = _excluded(excluded_layers)
        for one in layers:
            _make_half(one, half, spared)
            one.__dict__["_save_dtype"] = save_dtype
        for each in trained:
            each.masters = None if master_weight is False else MasterWeights()
    return models if optimizers is None else (models, optimizers)


def _several(given: Any, kind: type, label: str) -> list[Any]:
    listed = [] if given is None else list(given) if isinstance(given, list | tuple) else [given]
    for one in listed:
        if not isinstance(one, kind):
            raise TypeError(
                f"{label} must be {kind.__name__} or a list of them, but received "
                f"{type(one).__name__}"
            )
    return listed


def _excluded(given: Any) -> tuple[tuple[type, ...], set[int]]:
    """Classes of layers that stay float32, and single ones."""
    listed: Iterable[Any] = (
        given if isinstance(given, list | tuple) else () if given is None else (given,)
    )
    kinds = [one for one in listed if isinstance(one, type)]
    inside = [part for one in listed if not isinstance(one, type) for part in one.sublayers(True)]
    return (*FULL_PRECISION, *kinds), {id(one) for one in inside}


def _make_half(layer: Any, half: Any, spared: tuple[tuple[type, ...], set[int]]) -> None:
    kinds, single = spared
    for one in (layer, *layer.sublayers()):
        if isinstance(one, kinds) or id(one) in single:
            continue
        for parameter in one.parameters(include_sublayers=False):
            if parameter.dtype == VarType.FP32:
                parameter.held = parameter.tensor.detach().to(half)
