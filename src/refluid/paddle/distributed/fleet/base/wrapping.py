"""The optimizer that a strategy asks for, made of the user's."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate
from refluid.fluid.optimizer import (
    AdamOptimizer,
    DGCMomentumOptimizer,
    GradientMergeOptimizer,
    LambOptimizer,
    MomentumOptimizer,
    RecomputeOptimizer,
    SGDOptimizer,
)
from refluid.fluid.optimizer.base import Optimizer
from refluid.ir.variable import Parameter
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.excluding import unheeded, why_not

_log = logging.getLogger("refluid")


def wrapped(optimizer: Any, strategy: DistributedStrategy, workers: int) -> Any:
    """An optimizer whose `minimize` does what the strategy says of updates and their numbers.

    ValueError where two of its fields exclude each other.
    """
    inner = _changed(optimizer, strategy, workers)
    if strategy.recompute:
        inner = RecomputeOptimizer(inner)
        inner._set_checkpoints(strategy.recompute_configs["checkpoints"])
    if strategy.amp:
        inner = _in_half(inner, strategy.amp_configs)
    every, average = _merged_runs(strategy)
    return GradientMergeOptimizer(inner, every, average) if every > 1 else inner


def _merged_runs(strategy: DistributedStrategy) -> tuple[int, bool]:
    """After how many runs parameters are updated, and whether by the mean of the gradients."""
    config = strategy.gradient_merge_configs
    every = config["k_steps"] if strategy.gradient_merge else 1
    if strategy.sharding:
        every = max(every, strategy.sharding_configs["gradient_merge_acc_step"])
    return every, config["avg"]


def _in_half(inner: Any, config: Mapping[str, Any]) -> Any:
    lists = AutoMixedPrecisionLists(
        set(config["custom_white_list"]),
        set(config["custom_black_list"]),
        set(config["custom_black_varnames"]),
    )
    names = (
        "init_loss_scaling",
        "incr_every_n_steps",
        "decr_every_n_nan_or_inf",
        "incr_ratio",
        "decr_ratio",
        "use_dynamic_loss_scaling",
    )
    return decorate(inner, lists, **{name: config[name] for name in names})


# -- other kinds of updates -------------------------------------------------------------------


def _changed(optimizer: Any, strategy: DistributedStrategy, workers: int) -> Any:
    """The user's optimizer, or that of another kind with the user's numbers."""
    asked = [name for name in ("lars", "lamb", "dgc") if getattr(strategy, name)]
    for name in asked:
        needed, kind, make = _KINDS[name]
        if isinstance(optimizer, kind) and optimizer.type.removesuffix("_v2") == needed:
            return make(optimizer, getattr(strategy, f"{name}_configs"), workers)
        _log.warning(
            f"DistributedStrategy.{name} has no effect here: it needs a {needed} optimizer, not "
            f"{type(optimizer).__name__}."
        )
    return optimizer


class _Lars(Optimizer):
    """Momentum turned into LARS."""

    _config: Mapping[str, Any]
    _momentum: float

    def _attributes(self, param: Parameter) -> Mapping[str, Any]:
        config = self._config
        free = _is_named(param, config["exclude_from_weight_decay"])
        return {
            "mu": self._momentum,
            "lars_coeff": config["lars_coeff"],
            "lars_weight_decay": 0.0 if free else config["lars_weight_decay"],
            "epsilon": config["epsilon"],
        }


def _is_named(param: Parameter, parts: list[str]) -> bool:
    return any(one in param.name for one in parts)


def _as_lars(optimizer: Any, config: Mapping[str, Any], _workers: int) -> Any:
    return _of_kind(optimizer, _Lars, type="lars_momentum", _config=config)


def _as_lamb(optimizer: Any, config: Mapping[str, Any], _workers: int) -> Any:
    excluded = config["exclude_from_weight_decay"]
    return _of_kind(
        optimizer,
        LambOptimizer,
        type="lamb" + optimizer.type.removeprefix("adam"),
        _weight_decay=config["lamb_weight_decay"],
        _exclude_from_weight_decay_fn=lambda param: _is_named(param, excluded),
    )


def _as_dgc(optimizer: Any, config: Mapping[str, Any], workers: int) -> Any:
    clip = optimizer._grad_clip
    made = DGCMomentumOptimizer(
        0.0,
        optimizer._momentum,
        config["rampup_begin_step"],
        config["rampup_step"],
        config["sparsity"] or [0.999],
        use_nesterov=optimizer._use_nesterov,
        num_trainers=workers if clip is not None else None,
        grad_clip=clip,
    )
    own = ("type", "_begin", "_rampup_step", "_sparsity", "_clip_norm", "_grad_clip")
    return _of_kind(optimizer, DGCMomentumOptimizer, **{name: getattr(made, name) for name in own})


def _of_kind(optimizer: Any, kind: type[Any], **values: Any) -> Any:
    """A copy whose methods are those of `kind` first: rate, decay and clipping stay as they are."""
    made = copy.copy(optimizer)
    made.__class__ = type(kind.__name__, (kind, type(optimizer)), {})
    vars(made).update(values)
    return made


_Make = Callable[[Any, Mapping[str, Any], int], Any]
# The optimizer that each is made of.
_KINDS: dict[str, tuple[str, type[Any], _Make]] = {
    "lars": ("momentum", MomentumOptimizer, _as_lars),
    "lamb": ("adam", AdamOptimizer, _as_lamb),
    "dgc": ("momentum", MomentumOptimizer, _as_dgc),
}


def updates_locally(optimizer: Any) -> bool:
    """Whether the mean of parameters is that of updates: what LocalSGD needs."""
    return isinstance(optimizer, SGDOptimizer | MomentumOptimizer)


def complaints(strategy: DistributedStrategy) -> Iterator[str]:
    """What to say of fields that were set and have no effect.

    NotImplementedError for one that can't be trained by, ValueError where some exclude each other.
    """
    for where, field, value in strategy._given():
        if field.refused:
            raise NotImplementedError(f"DistributedStrategy.{where} = {value!r}: {field.refused}")
        if field.idle:
            yield f"DistributedStrategy.{where} has no effect here: {field.idle}."
    on = strategy._asked()
    if why := why_not(on):
        raise ValueError(why)
    for name, beside in unheeded(on).items():
        yield f"DistributedStrategy.{name} has no effect with {beside}."
