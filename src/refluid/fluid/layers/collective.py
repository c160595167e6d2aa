"""The layers of `fluid.layers.collective`."""

from refluid.fluid.functions.comm.collective import (
    _allreduce,
    _broadcast,
    _c_allgather,
    _c_allreduce,
    _c_broadcast,
    _c_reducescatter,
    _c_sync_calc_stream,
    _c_sync_comm_stream,
)

__all__ = [
    "_allreduce",
    "_broadcast",
    "_c_allgather",
    "_c_allreduce",
    "_c_broadcast",
    "_c_reducescatter",
    "_c_sync_calc_stream",
    "_c_sync_comm_stream",
]
