"""The public names of `paddle.distributed.fleet`, which its package takes from here."""

from __future__ import annotations

from typing import Any

from refluid.core.stub_making import stub
from refluid.paddle.distributed.fleet import base, data_generator, dataset, metrics, utils
from refluid.paddle.distributed.fleet.base.distributed_strategy import DistributedStrategy
from refluid.paddle.distributed.fleet.base.fleet_base import Fleet, fleet
from refluid.paddle.distributed.fleet.base.role_maker import (
    PaddleCloudRoleMaker,
    Role,
    UserDefinedRoleMaker,
)
from refluid.paddle.distributed.fleet.base.util_factory import UtilBase
from refluid.paddle.distributed.fleet.data_generator import (
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)
from refluid.paddle.distributed.fleet.dataset import (
    BoxPSDataset,
    DatasetBase,
    FileInstantDataset,
    InMemoryDataset,
    QueueDataset,
)
from refluid.paddle.distributed.topology import (
    CommunicateTopology,
    HybridCommunicateGroup,
)

__all__ = [
    "BoxPSDataset",
    "CommunicateTopology",
    "DatasetBase",
    "DistributedStrategy",
    "FileInstantDataset",
    "Fleet",
    "HybridCommunicateGroup",
    "InMemoryDataset",
    "MultiSlotDataGenerator",
    "MultiSlotStringDataGenerator",
    "PaddleCloudRoleMaker",
    "QueueDataset",
    "Role",
    "UserDefinedRoleMaker",
    "UtilBase",
    "all_reduce",
    "barrier_worker",
    "base",
    "clear_grad",
    "data_generator",
    "dataset",
    "distributed_model",
    "distributed_optimizer",
    "get_hybrid_communicate_group",
    "get_lr",
    "init",
    "init_server",
    "init_worker",
    "is_first_worker",
    "is_server",
    "is_worker",
    "load_inference_model",
    "load_model",
    "load_one_table",
    "local_rank",
    "metrics",
    "minimize",
    "node_num",
    "nranks",
    "rank",
    "run_server",
    "save",
    "save_cache_model",
    "save_cache_table",
    "save_dense_params",
    "save_inference_model",
    "save_model",
    "save_one_table",
    "save_persistables",
    "server_endpoints",
    "server_index",
    "server_num",
    "set_lr",
    "set_state_dict",
    "shrink",
    "state_dict",
    "step",
    "stop_worker",
    "util",
    "utils",
    "worker_endpoints",
    "worker_index",
    "worker_num",
    "world_size",
]

# Of the one fleet of this process.
init = fleet.init
is_first_worker = fleet.is_first_worker
worker_index = fleet.worker_index
worker_num = fleet.worker_num
node_num = fleet.node_num
rank = fleet.worker_index
local_rank = fleet.local_rank
nranks = world_size = fleet.worker_num
is_worker = fleet.is_worker
worker_endpoints = fleet.worker_endpoints
server_num = fleet.server_num
server_index = fleet.server_index
server_endpoints = fleet.server_endpoints
is_server = fleet.is_server
barrier_worker = fleet.barrier_worker
init_worker = fleet.init_worker
init_server = fleet.init_server
run_server = fleet.run_server
stop_worker = fleet.stop_worker
distributed_optimizer = fleet.distributed_optimizer
distributed_model = fleet.distributed_model
get_hybrid_communicate_group = fleet.get_hybrid_communicate_group
minimize = fleet.minimize
step = fleet.step
clear_grad = fleet.clear_grad
get_lr = fleet.get_lr
set_lr = fleet.set_lr
state_dict = fleet.state_dict
set_state_dict = fleet.set_state_dict
save_inference_model = fleet.save_inference_model
save_persistables = fleet.save_persistables
shrink = fleet.shrink
all_reduce = fleet.all_reduce
load_inference_model = fleet.load_inference_model
load_model = fleet.load_model
load_one_table = fleet.load_one_table
save = fleet.save
save_cache_model = fleet.save_cache_model
save_cache_table = fleet.save_cache_table
save_dense_params = fleet.save_dense_params
save_model = fleet.save_model
save_one_table = fleet.save_one_table
util = fleet.util


def __getattr__(name: str) -> Any:
    if name == "meta_parallel":
        from refluid.paddle.distributed.fleet import meta_parallel

        return meta_parallel
    return stub("refluid.paddle.distributed.fleet", name)
