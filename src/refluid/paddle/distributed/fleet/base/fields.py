"""The fields of `DistributedStrategy`: their types, defaults, and what each does here.

The order is that in which they are printed. `configs.py` has the fields of their configurations.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any


class TrainingMode(IntEnum):
    """Kinds of training."""

    COLLECTIVE = 1
    PS = 2
    PIPELINE = 3
    HETER = 4


@dataclass(frozen=True)
class StrategyField:
    """One field. The type of its values is that of `default`; of lists, of those in `kind`.

    does: what it does here. idle: why a changed value has no effect, as the log then says.
    refused: why a changed value can't be trained by.
    """

    name: str
    default: Any
    does: str = ""
    kind: type = str
    idle: str = ""
    refused: str = ""

    @property
    def written(self) -> str:
        """Its name in files: Paddle hides some from users by an underscore."""
        return self.name.removeprefix("_")


def by_name(fields: Iterable[StrategyField]) -> dict[str, StrategyField]:
    """The fields as a table."""
    return {one.name: one for one in fields}


_CUDNN = "is a matter of cuDNN, which PyTorch steers here"
_FEDERATED = "refluid has no federated training, nor a coordinator"
_TUNER = "refluid doesn't choose a strategy by itself yet"

SWITCHES = by_name(
    [
        StrategyField("amp", False, "half precision where it pays, as `mixed_precision.decorate`"),
        StrategyField("recompute", False, "only checkpoints are kept for the backward pass"),
        StrategyField("localsgd", False, "workers update alone, and take the mean every k_steps"),
        StrategyField("adaptive_localsgd", False, "the same, k following loss and learning rate"),
        StrategyField("dgc", False, "Momentum sends only the largest part of each gradient"),
        StrategyField(
            "gradient_merge", False, "gradients of k_steps runs are added before one update"
        ),
        StrategyField("lars", False, "Momentum has a rate of its own for each parameter"),
        StrategyField("lamb", False, "Adam has a rate of its own for each parameter"),
        StrategyField(
            "sharding", False, "each worker owns a share of parameters and optimizer state"
        ),
        StrategyField(
            "pipeline", False, "each worker trains the layers on one device, on micro-batches"
        ),
        StrategyField(
            "tensor_parallel", False, "layers of `paddle.distributed.split` are split among workers"
        ),
        StrategyField(
            "a_sync", False, "with servers: workers wait for no other, or exchange every k_steps"
        ),
    ]
)
FLAGS = by_name(
    [
        StrategyField(
            "mode", TrainingMode.COLLECTIVE, "COLLECTIVE, the kind of training that there is"
        ),
        StrategyField("elastic", False, idle="the launcher begins again by --max_restarts"),
        StrategyField("auto", False, refused=_TUNER),
        StrategyField("semi_auto", False, refused=_TUNER),
        StrategyField("auto_search", False, refused=_TUNER),
        StrategyField(
            "sync_nccl_allreduce", True, idle="exchanges have threads of their own, which wait"
        ),
        StrategyField("nccl_comm_num", 1, "so many exchanges go on beside each other"),
        StrategyField(
            "use_hierarchical_allreduce", False, "gradients are reduced within hosts first"
        ),
        StrategyField("hierarchical_allreduce_inter_nranks", 1, "on one host: into so many groups"),
        StrategyField("sync_batch_norm", False, "statistics over all workers' batches"),
        StrategyField("fuse_all_reduce_ops", True, "gradients are exchanged several at a time"),
        StrategyField("fuse_grad_size_in_MB", 32, "an exchange is begun at so many MB"),
        StrategyField("_fuse_grad_size_in_TFLOPS", 50.0, "or at so many gradients"),
        StrategyField(
            "_fuse_grad_size_in_num", 8, idle="fuse_grad_size_in_MB says when one is begun"
        ),
        StrategyField(
            "last_comm_group_size_MB", 1.0, "of dygraph's DataParallel: the last exchange"
        ),
        StrategyField("cudnn_exhaustive_search", False, idle=_CUDNN),
        StrategyField("conv_workspace_size_limit", 512, idle=_CUDNN),
        StrategyField("cudnn_batchnorm_spatial_persistent", False, idle=_CUDNN),
        StrategyField(
            "fp16_allreduce", False, "gradients are exchanged in float16, summed in float32"
        ),
        StrategyField(
            "find_unused_parameters",
            False,
            "of dygraph: workers may lack gradients that others have",
        ),
        StrategyField(
            "without_graph_optimization", False, idle="passes run as build_strategy says"
        ),
        StrategyField("_calc_comm_same_stream", False, idle="exchanges have threads of their own"),
        StrategyField(
            "fuse_grad_merge", False, idle="merged gradients are exchanged together anyhow"
        ),
        StrategyField("asp", False, refused="refluid has no sparse training by masks"),
        StrategyField(
            "qat", False, refused="fluid.contrib.slim.quantization prepares programs here"
        ),
        StrategyField("adam_d2sum", False, refused="refluid has no Adam of that kind"),
        StrategyField("heter_ccl_mode", False, refused="refluid trains on devices of one kind"),
        StrategyField("is_fl_ps_mode", False, refused=_FEDERATED),
        StrategyField("with_coordinator", False, refused=_FEDERATED),
        StrategyField("split_data", True, idle="each worker reads its own share"),
    ]
)
BUILD = by_name(
    [
        StrategyField("enable_sequential_execution", False),
        StrategyField("fuse_elewise_add_act_ops", False),
        StrategyField("fuse_bn_act_ops", False),
        StrategyField("fuse_relu_depthwise_conv", False),
        StrategyField("fuse_broadcast_ops", True),
        StrategyField("fuse_all_optimizer_ops", False),
        StrategyField("enable_inplace", True),
        StrategyField("enable_backward_optimizer_op_deps", True),
        StrategyField("cache_runtime_context", False),
        StrategyField("fuse_bn_add_act_ops", False),
        StrategyField("enable_auto_fusion", False),
        StrategyField("enable_addto", False),
        StrategyField("fix_op_run_order", False),
        StrategyField("allow_cuda_graph_capture", False),
        StrategyField("fuse_gemm_epilogue", False),
        StrategyField("reduce_strategy", 0),
        StrategyField("debug_graphviz_path", ""),
        StrategyField("fused_attention", False),
        StrategyField("fused_feedforward", False),
    ]
)
EXECUTION = by_name(
    [
        StrategyField("num_threads", 0),
        StrategyField("num_iteration_per_drop_scope", 100),
        StrategyField("num_iteration_per_run", 1),
        StrategyField("use_thread_barrier", False),
    ]
)
