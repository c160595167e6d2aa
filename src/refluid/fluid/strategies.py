"""`BuildStrategy` and `ExecutionStrategy`: how a compiled program is built and run.

Defaults are those of Fluid 1.8. A wrong name is an AttributeError, a wrong type a TypeError, a
number out of bounds an OutOfBounds (an EnforceNotMet and a ValueError), a change after the program
was compiled an EnforceNotMet.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any, ClassVar

from refluid.core.bounds import MOST, MOST_THREADS, whole_number
from refluid.core.errors import EnforceNotMet

__all__ = ["BuildStrategy", "ExecutionStrategy"]


class ReduceStrategy(IntEnum):
    """AllReduce: every replica updates all parameters. Reduce: each updates its share of them."""

    AllReduce = 0
    Reduce = 1


class GradientScaleStrategy(IntEnum):
    """What `loss@GRAD` is: 1 / number of replicas, 1, or what is fed."""

    CoeffNumDevice = 0
    One = 1
    Customized = 2


class _Options:
    """Named options with a type each."""

    _defaults: ClassVar[dict[str, Any]] = {}
    # The largest value where it isn't that of 32 bits; none is negative.
    _most: ClassVar[dict[str, int]] = {}
    _label: ClassVar[str] = ""

    def __init__(self) -> None:
        values = {
            name: type(value)(value) if isinstance(value, set | list) else value
            for name, value in self._defaults.items()
        }
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "_finalized", False)

    def __getattr__(self, name: str) -> Any:
        values = object.__getattribute__(self, "_values")
        if name not in values:
            raise AttributeError(f"{self._label} has no option {name!r}")
        return values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            known = ", ".join(sorted(self._defaults))
            raise AttributeError(f"{self._label} has no option {name!r}; there are: {known}")
        if self._finalized:
            raise EnforceNotMet(
                f"{self._label} has been finlaized, cannot be configured again. Make a new one "
                "before the program is compiled."
            )
        self._values[name] = self._checked(name, value)

    def _checked(self, name: str, value: Any) -> Any:
        default: Any = self._defaults[name]
        if default is None:  # memory_optimize: unset, True or False
            kinds: tuple[type[Any], ...] = (bool, type(None))
        elif isinstance(default, IntEnum):
            kinds = (type(default), int)
        else:
            kinds = (type(default), list) if isinstance(default, set) else (type(default),)
        wrong = isinstance(value, bool) and bool not in kinds
        if wrong or not isinstance(value, kinds):
            wanted = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{self._label}.{name} must be {wanted}, not {type(value).__name__}")
        if isinstance(default, set):
            return set(value)
        if type(default) is int:
            most = self._most.get(name, MOST)
            return whole_number(f"{self._label}.{name}", value, most, 0)
        return type(default)(value) if isinstance(default, IntEnum) else value

    def _finalize(self, **resolved: Any) -> None:
        """Writes values that were resolved, and forbids further changes."""
        self._values.update(resolved)
        object.__setattr__(self, "_finalized", True)

    def _options(self) -> dict[str, Any]:
        """All options with their values."""
        return dict(self._values)

    def _changed(self) -> dict[str, Any]:
        """The options that differ from the default."""
        return {
            name: value for name, value in self._values.items() if value != self._defaults[name]
        }


class BuildStrategy(_Options):
    """How a program's graph is built: what is fused, and how gradients are exchanged."""

    ReduceStrategy = ReduceStrategy
    GradientScaleStrategy = GradientScaleStrategy
    _label = "BuildStrategy"
    _defaults: ClassVar[dict[str, Any]] = {
        "async_mode": False,
        "build_cinn_pass": False,
        "cache_runtime_context": False,
        "debug_graphviz_path": "",
        "enable_auto_fusion": False,
        "enable_backward_optimizer_op_deps": True,
        "enable_inplace": True,
        "enable_sequential_execution": False,
        "fuse_all_optimizer_ops": False,
        "fuse_all_reduce_ops": True,
        "fuse_bn_act_ops": False,
        "fuse_bn_add_act_ops": False,
        "fuse_broadcast_ops": True,
        "fuse_elewise_add_act_ops": False,
        "fuse_gemm_epilogue": False,
        "fuse_relu_depthwise_conv": False,
        "gradient_scale_strategy": GradientScaleStrategy.CoeffNumDevice,
        "hierarchical_allreduce_inter_nranks": 0,
        "is_distribution": False,
        "memory_optimize": None,
        "mkldnn_enabled_op_types": set(),
        "nccl_comm_num": 1,
        "num_trainers": 1,
        "reduce_strategy": ReduceStrategy.AllReduce,
        "remove_unnecessary_lock": True,
        "sync_batch_norm": False,
        "trainer_id": 0,
        "trainers_endpoints": [],
        "use_hierarchical_allreduce": False,
    }


class ExecutionStrategy(_Options):
    """How a compiled program is run. `num_threads` 0 is resolved when the program is compiled."""

    _label = "ExecutionStrategy"
    _most: ClassVar[dict[str, int]] = {"num_threads": MOST_THREADS}
    _defaults: ClassVar[dict[str, Any]] = {
        "allow_op_delay": False,
        "num_iteration_per_drop_scope": 100,
        "num_iteration_per_run": 1,
        "num_threads": 0,
        "use_cuda": True,
        "use_experimental_executor": True,
        "use_thread_barrier": False,
    }
