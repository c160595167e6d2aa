"""The knobs that have something to measure: both settings, and the network they are meant for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.knob_networks import Wrap
from refluid import fluid
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.fluid.optimizer import GradientMergeOptimizer

Options = Mapping[str, Any]


@dataclass(frozen=True)
class Setting:
    """How a program is built and run. environment: for a process of its own."""

    build: Options = field(default_factory=dict)
    execution: Options = field(default_factory=dict)
    flags: Options = field(default_factory=dict)
    places: int = 1
    wrap: Wrap | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


PLAIN = Setting()


@dataclass(frozen=True)
class Case:
    """One knob. what: `step`, `first step`. tolerance: of the losses; infinite where they differ
    by intent. settles: for so many seconds each side chooses how it runs, before it is timed."""

    knob: str
    with_: Setting
    network: str
    without: Setting = PLAIN
    tolerance: float = 1e-5
    what: str = "step"
    settles: float = 0.0

    @property
    def apart(self) -> bool:
        """Whether each side needs a process of its own."""
        return bool(self.with_.environment or self.without.environment)


def _recompute(optimizer: Any, checkpoints: list[Any]) -> Any:
    found = fluid.optimizer.RecomputeOptimizer(optimizer)
    found._set_checkpoints(checkpoints)
    return found


def _merge(optimizer: Any, _checkpoints: list[Any]) -> Any:
    return GradientMergeOptimizer(optimizer, 4)


def _half(optimizer: Any, _checkpoints: list[Any]) -> Any:
    return decorate(optimizer)


def _build(name: str, on: Any, network: str, off: Any = False, **both: Any) -> Case:
    places = both.pop("places", 1)
    return Case(
        name,
        Setting(build={name: on, **both}, places=places),
        network,
        Setting(build={name: off, **both}, places=places),
    )


def _flag(name: str, on: Any, off: Any, network: str, places: int = 1) -> Case:
    key = f"FLAGS_{name}"
    return Case(
        key,
        Setting(flags={key: on}, places=places),
        network,
        Setting(flags={key: off}, places=places),
    )


def _process(name: str, on: str, off: str, network: str, what: str, places: int = 1) -> Case:
    key = f"FLAGS_{name}"
    with_, without = (Setting(environment={key: value}, places=places) for value in (on, off))
    return Case(key, with_, network, without, what=what)


_REDUCE = fluid.BuildStrategy.ReduceStrategy.Reduce
_ALL = fluid.BuildStrategy.ReduceStrategy.AllReduce

CASES = (
    _build("enable_inplace", True, "sums"),
    _build("memory_optimize", True, "residual"),
    _build("mkldnn_enabled_op_types", {"conv2d", "conv2d_grad"}, "filters", set()),
    _build("fuse_all_reduce_ops", True, "wide", places=2),
    _build("reduce_strategy", _REDUCE, "wide", _ALL, places=2),
    Case(
        "num_threads",
        Setting(execution={"num_threads": 2}),
        "branches",
        Setting(execution={"num_threads": 1}),
        settles=2.0,
    ),
    Case(
        "num_iteration_per_drop_scope",
        Setting(execution={"num_iteration_per_drop_scope": 100}),
        "residual",
        Setting(execution={"num_iteration_per_drop_scope": 1}),
    ),
    Case(
        "num_iteration_per_run",
        Setting(execution={"num_iteration_per_run": 8}),
        "small",
        tolerance=float("inf"),
        what="8 steps against 1",
    ),
    _flag("eager_delete_tensor_gb", 0.0, -1.0, "residual"),
    _flag("memory_fraction_of_eager_deletion", 1.0, 0.3, "residual"),
    _flag("free_idle_chunk", True, False, "residual"),
    _flag("check_nan_inf", True, False, "deep"),
    _flag("fast_check_nan_inf", True, False, "deep"),
    _flag("fuse_parameter_memory_size", 2.0, 25.0, "wide", places=2),
    _flag("refluid_native_kernels", "conv2d", "", "filters"),
    _flag("refluid_onednn_from", 2**18, -1, "deep"),
    _flag("refluid_channels_last", "auto", "never", "residual"),
    _flag("refluid_batch_parts", 4, 1, "sums"),
    _process("refluid_replicas", "auto", "threads", "small", "step", places=2),
    _process("use_system_allocator", "1", "0", "residual", "step"),
    _process("allocator_strategy", "naive_best_fit", "auto_growth", "residual", "first step"),
    _process("paddle_num_threads", "2", "1", "deep", "step"),
    Case("decorate", Setting(wrap=_half), "deep", tolerance=1e-2),
    Case("RecomputeOptimizer", Setting(wrap=_recompute), "deep"),
    Case("GradientMergeOptimizer", Setting(wrap=_merge), "wide", tolerance=float("inf")),
)
