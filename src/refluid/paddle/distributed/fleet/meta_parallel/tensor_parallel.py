"""`TensorParallel`: a model with split layers, trained by several workers."""

from __future__ import annotations

from typing import Any

from refluid.paddle.distributed.data_parallel import DataParallel
from refluid.paddle.distributed.groups import Group
from refluid.paddle.distributed.topology import HybridCommunicateGroup

__all__ = ["TensorParallel", "begin_whole"]


def begin_whole(layers: Any, group: Group) -> None:
    """Parameters and buffers that aren't split begin as those of the group's first member."""
    if group.comm is None or group.nranks == 1:
        return
    held = layers.state_dict()
    whole = [held[name] for name in sorted(held) if not getattr(held[name], "split_in", 0)]
    group.comm.broadcast([one.tensor.detach() for one in whole], 0)


class TensorParallel(DataParallel):
    """Whole parameters begin alike in a model group, and all alike in a data group.

    `backward` averages gradients over the data group. options: as of `DataParallel`.
    """

    def __init__(self, layers: Any, hcg: HybridCommunicateGroup, **options: Any) -> None:
        begin_whole(layers, hcg.get_model_parallel_group())
        super().__init__(layers, group=hcg.get_data_parallel_group(), **options)
