"""The fields of a `DistributedStrategy`'s configurations: `lars_configs`, `amp_configs`, ..."""

from __future__ import annotations

from refluid.paddle.distributed.fleet.base.fields import StrategyField, by_name
from refluid.paddle.distributed.grid import ORDER

_GPU_MEMORY = "moves values between a GPU and its host, which refluid doesn't"
_HYBRID = "refluid trains by data parallelism and sharding only"
_GUARD = "with use_pure_fp16 only, which refluid doesn't have"
_TUNER = "refluid doesn't choose a strategy by itself yet"

_PARTS = StrategyField("mp_degree", 1, "in how many parts layers are split")
_AMP = [
    StrategyField("init_loss_scaling", 32768.0, "the first loss scale"),
    StrategyField("incr_every_n_steps", 1000, "finite steps before the scale grows"),
    StrategyField("decr_every_n_nan_or_inf", 2, "steps with infinite gradients before it shrinks"),
    StrategyField("incr_ratio", 2.0, "how much it grows"),
    StrategyField("decr_ratio", 0.8, "how much it shrinks"),
    StrategyField("use_dynamic_loss_scaling", True, "whether it changes at all"),
    StrategyField("custom_white_list", [], "operators that are half precision besides"),
    StrategyField("custom_black_list", [], "operators that stay float32 besides"),
    StrategyField("custom_black_varnames", [], "variables around which all stays float32"),
    StrategyField(
        "use_pure_fp16", False, refused="parameters stay float32 here: use_pure_fp16=False"
    ),
    StrategyField(
        "use_pure_bf16", False, refused="parameters stay float32 here: use_pure_bf16=False"
    ),
    StrategyField("use_fp16_guard", True, idle=_GUARD),
    StrategyField("use_optimizer_fp16", False, refused="optimizers keep float32 here"),
]
_SHARDING = [
    StrategyField(
        "sharding_segment_strategy", "segment_broadcast_MB", "how a program is cut in segments"
    ),
    StrategyField("segment_broadcast_MB", 32.0, "so many MB of parameters come at a time"),
    StrategyField("segment_anchors", [], "or those that operators with these outputs begin"),
    StrategyField("sharding_degree", 8, "among how many workers the state is shared"),
    _PARTS,
    StrategyField("pp_degree", 1, refused="strategy.pipeline cuts programs, into stages by device"),
    StrategyField("dp_degree", 1, "how many such groups train together"),
    StrategyField("hybrid_dp", False, "as many groups as there are workers for"),
    StrategyField("gradient_merge_acc_step", 1, "as gradient_merge"),
    StrategyField("optimize_offload", False, refused=_GPU_MEMORY),
    StrategyField("optimize_cast", False, idle="casts stand where mixed precision puts them"),
    StrategyField("pp_allreduce_in_optimize", False, refused=_HYBRID),
    StrategyField(
        "stage", 3, "1: optimizer state, 2: and gradients, 3: and parameters have owners"
    ),
    StrategyField("enable_tuning", False, refused=_TUNER),
    StrategyField("use_calc_stream", False, idle="exchanges have threads of their own"),
]
_HYBRID_CONFIGS = [
    StrategyField("dp_degree", -1, "how many workers read batches of their own; -1 for all"),
    _PARTS,
    StrategyField("pp_degree", 1, "in how many stages a model is cut"),
    StrategyField(
        "sharding_degree", 1, refused="sharding=True, sharding_configs say so in programs"
    ),
    StrategyField("sep_degree", 1, refused=_HYBRID),
    StrategyField(
        "order", list(ORDER), "along which degrees workers are numbered, outermost first"
    ),
]

CONFIGS = {
    "amp_configs": by_name(_AMP),
    "recompute_configs": by_name(
        [
            StrategyField("checkpoints", [], "the variables that are kept"),
            StrategyField("enable_offload", False, refused=_GPU_MEMORY),
            StrategyField(
                "checkpoint_shape", [], kind=int, idle="of enable_offload, which isn't there"
            ),
            StrategyField("enable_tuning", False, refused=_TUNER),
        ]
    ),
    "localsgd_configs": by_name(
        [
            StrategyField("k_steps", 1, "updates between two means"),
            StrategyField("begin_step", 1, "until this update each has its mean"),
        ]
    ),
    "adaptive_localsgd_configs": by_name(
        [
            StrategyField("init_k_steps", 1, "updates between the first two means"),
            StrategyField("begin_step", 1, "until this update each has its mean"),
        ]
    ),
    "dgc_configs": by_name(
        [
            StrategyField("rampup_begin_step", 0, "until this step gradients are sent whole"),
            StrategyField("rampup_step", 1, "for so many steps the sparsities take turns"),
            StrategyField("sparsity", [], "the share that waits, 0.999 where empty", kind=float),
        ]
    ),
    "gradient_merge_configs": by_name(
        [
            StrategyField("k_steps", 1, "runs before one update"),
            StrategyField("avg", True, "whether by the mean of the gradients, or by their sum"),
        ]
    ),
    "lars_configs": by_name(
        [
            StrategyField("lars_coeff", 0.001, "the trust coefficient"),
            StrategyField("lars_weight_decay", 0.0005, "weight decay within the formula"),
            StrategyField("epsilon", 0.0, "added to the divisor"),
            StrategyField(
                "exclude_from_weight_decay", [], "parameters whose names hold one of these"
            ),
        ]
    ),
    "lamb_configs": by_name(
        [
            StrategyField("lamb_weight_decay", 0.01, "weight decay within the formula"),
            StrategyField(
                "exclude_from_weight_decay", [], "parameters whose names hold one of these"
            ),
        ]
    ),
    "sharding_configs": by_name(_SHARDING),
    "hybrid_configs": by_name(_HYBRID_CONFIGS),
    "tensor_parallel_configs": by_name(
        [
            StrategyField("tensor_parallel_degree", 1, "in how many parts layers are split"),
            StrategyField(
                "tensor_init_seed", -1, "from which split parameters are drawn, each part by itself"
            ),
        ]
    ),
    "pipeline_configs": by_name(
        [
            StrategyField("micro_batch_size", 1, "samples of each micro-batch, any if not set"),
            StrategyField("accumulate_steps", 1, "micro-batches of each step"),
            StrategyField(
                "schedule_mode", "1F1B", "1F1B: backward as soon as can be; F-then-B: afterwards"
            ),
            StrategyField("p2p_cache_shape", True, idle="shapes go with each message"),
            StrategyField("enable_partial_send_recv", True, idle="all that stages need is sent"),
        ]
    ),
    "gradient_scale_configs": by_name(
        [
            StrategyField(
                "scale_strategy", "avg", "avg: the mean over workers; sum; customized: as fed"
            ),
            StrategyField("scale_gradient", False, idle="the mean is taken where the loss begins"),
        ]
    ),
    "a_sync_configs": by_name(
        [
            StrategyField("k_steps", -1, "above 0: GEO, exchanges every so many steps"),
            StrategyField("max_merge_var_num", 1, "so many steps are pushed as one at most"),
            StrategyField("send_queue_size", 16, "so many steps may wait to be pushed"),
            StrategyField("independent_recv_thread", False, "a thread pulls and nothing else"),
            StrategyField("min_send_grad_num_before_recv", 1, "after so many steps it pulls"),
            StrategyField("thread_pool_size", 1, idle="all servers are asked at once"),
            StrategyField("send_wait_times", 1, "how often more is waited for before fewer go"),
            StrategyField(
                "runtime_split_send_recv", False, idle="gradients are cut when they are sent"
            ),
            StrategyField("launch_barrier", True, idle="init_worker waits for the servers"),
            StrategyField(
                "heter_worker_device_guard", "cpu", refused="workers are of one kind here"
            ),
            StrategyField("lr_decay_steps", 10, idle="rates decay as the program says"),
            StrategyField("use_ps_gpu", 0, refused="servers keep tables in memory or on disk"),
        ]
    ),
    "qat_configs": by_name(
        [
            StrategyField("channel_wise_abs_max", True, idle="of qat, which isn't there"),
            StrategyField("weight_bits", 8, idle="of qat, which isn't there"),
            StrategyField("activation_bits", 8, idle="of qat, which isn't there"),
            StrategyField("not_quant_pattern", [], idle="of qat, which isn't there"),
            StrategyField("algo", "", idle="of qat, which isn't there"),
        ]
    ),
}


def switch_of(config: str) -> str:
    """What turns a configuration on: `amp` of `amp_configs`; none for those always in force."""
    return config.removesuffix("_configs")
