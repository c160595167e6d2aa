"""`DistributedStrategy` of Fluid 1.x: how a collective fleet trains."""

from __future__ import annotations

from typing import Any

from refluid.fluid.compiler import BuildStrategy, ExecutionStrategy

__all__ = ["DistFCConfig", "DistributedStrategy", "LambConfig"]


class LambConfig:
    """Settings of Lamb, of which there are none."""


class DistFCConfig:
    """Settings of a fully connected layer that is parted among workers."""


class DistributedStrategy(BuildStrategy):
    """A BuildStrategy that also says how the workers train together.

    mode: nccl2 exchanges gradients as replicas do; collective appends operators that exchange
    them. collective_mode: grad_allreduce or local_sgd, for the latter mode. use_local_sgd: the same
    as these two. local_sgd_steps: after how many steps of its own a worker takes the mean of all;
    local_sgd_is_warm_steps: how many steps before that exchange gradients. forward_recompute,
    recompute_checkpoints: as of RecomputeOptimizer. use_amp, amp_loss_scaling: mixed precision,
    with dynamic scaling from that. exec_strategy: how the program is run.
    """

    def __init__(self) -> None:
        own: dict[str, Any] = {
            "mode": "nccl2",
            "collective_mode": None,
            "use_local_sgd": False,
            "local_sgd_steps": 1,
            "local_sgd_is_warm_steps": 0,
            "use_dist_fc": False,
            "dist_fc_config": None,
            "forward_recompute": False,
            "recompute_checkpoints": [],
            "use_amp": False,
            "amp_loss_scaling": 2**15,
            "exec_strategy": ExecutionStrategy(),
        }
        object.__setattr__(self, "_own", own)
        super().__init__()

    def __getattr__(self, name: str) -> Any:
        own = object.__getattribute__(self, "_own")
        return own[name] if name in own else super().__getattr__(name)

    def __setattr__(self, name: str, value: Any) -> None:
        own = object.__getattribute__(self, "_own")
        if name not in own:
            super().__setattr__(name, value)
            return
        default = own[name]
        kinds = {bool: bool, int: int | float, list: list | tuple}.get(type(default))
        if kinds is not None and not isinstance(value, kinds):
            raise TypeError(
                f"DistributedStrategy.{name} must be {type(default).__name__}, not "
                f"{type(value).__name__}"
            )
        own[name] = value
