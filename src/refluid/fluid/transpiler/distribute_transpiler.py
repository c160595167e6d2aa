"""What `DistributeTranspiler` is told, and how parameters are cut into blocks for servers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

__all__ = ["DistributeTranspilerConfig"]


class DistributeTranspilerConfig:
    """How parameters are spread over servers, and how trainers and servers wait for each other.

    slice_var_up: parameters are cut into blocks of at least `min_block_size` elements.
    split_method: RoundRobin or HashName. sync_mode: servers wait for all trainers.
    runtime_split_send_recv: trainers cut gradients when they send them, without synchronous mode.
    """

    slice_var_up = True
    split_method: Any = None
    min_block_size = 8192
    enable_dc_asgd = False
    mode = "pserver"
    print_log = False
    wait_port = True
    half_async = False
    completely_not_async = False
    geo_sgd_mode = False
    geo_sgd_need_push_nums = 100
    nccl_comm_num = 1
    use_hierarchical_allreduce = False
    hierarchical_allreduce_inter_nranks = 0
    collective_mode: str | None = None

    def __init__(self) -> None:
        self.__sync_mode = True
        self.__runtime_split_send_recv = False

    @property
    def runtime_split_send_recv(self) -> bool:
        """Whether trainers cut gradients at the time they send them."""
        return self.__runtime_split_send_recv

    @runtime_split_send_recv.setter
    def runtime_split_send_recv(self, value: bool) -> None:
        if value and self.__sync_mode:
            raise ValueError(
                "if you want to set runtime_split_send_recv to be true, make ensure "
                "config.sync_mode is false at first"
            )
        self.__runtime_split_send_recv = value

    @property
    def sync_mode(self) -> bool:
        """Whether servers wait for the gradients of all trainers."""
        return self.__sync_mode

    @sync_mode.setter
    def sync_mode(self, value: bool) -> None:
        if value and self.__runtime_split_send_recv:
            raise ValueError(
                "if you want to set sync_mode to be true, make ensure "
                "config.runtime_split_send_recv is false at first"
            )
        self.__sync_mode = value


class VarBlock:
    """A part of a variable that one server holds: `name:number:size`."""

    def __init__(self, varname: str, offset: int, size: int) -> None:
        self.varname = varname
        self.offset = offset
        self.size = size

    def __str__(self) -> str:
        return f"{self.varname}:{self.offset}:{self.size}"


def slice_variable(var_list: Sequence[Any], slice_count: int, min_block_size: int) -> list[str]:
    """Cuts variables into at most `slice_count` blocks each, of whole rows.

    A block has at least `min_block_size` elements, so a small variable has fewer blocks.
    """
    blocks = []
    for var in var_list:
        total = math.prod(var.shape)
        count = min(slice_count, max(1, total // min_block_size))
        size = math.ceil(total / count)
        if len(var.shape) >= 2:
            row = math.prod(var.shape[1:])
            size = math.ceil(size / row) * row
        for number in range(math.ceil(total / size)):
            blocks.append(str(VarBlock(var.name, number, min(size, total - number * size))))
    return blocks
