"""The table of Fluid's FLAGS_*: name, default (which gives the type), what refluid makes of it.

Names and defaults are those of Fluid 1.8; `refluid.core.flags` reads and sets the values.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from refluid.core.bounds import MOST_THREADS

FlagValue = bool | int | float | str


class Status(Enum):
    """What setting a flag does in refluid."""

    EFFECTIVE = "effective"
    IGNORED_BY_FLUID = "ignored by Fluid on this place"
    ALWAYS = "always so in refluid"
    NOT_YET = "not yet in refluid"
    NO_COUNTERPART = "left to PyTorch"


@dataclass(frozen=True, slots=True)
class Flag:
    """One knob; the type of its values is that of `default`.

    `gpu` marks a flag that only GPU code looks at; `minimum` and `maximum` bound integers, as
    Fluid keeps them in so many bits, signed or not; `choices` are all values there are, if not
    empty. `why`: why setting it changes nothing, where the status alone doesn't say so.
    """

    name: str
    default: FlagValue
    status: Status
    help: str
    gpu: bool = False
    minimum: int | None = None
    maximum: int = 2**63 - 1
    choices: tuple[str, ...] = ()
    why: str = ""

    @property
    def kind(self) -> type[FlagValue]:
        """bool, int, float or str."""
        return type(self.default)


_Row = tuple[str, FlagValue, str]

_EFFECTIVE: list[_Row] = [
    ("memory_fraction_of_eager_deletion", 1.0, "share of temporaries freed early, largest first"),
    ("allocator_strategy", "auto_growth", "auto_growth or naive_best_fit"),
    ("fraction_of_cpu_memory_to_use", 1.0, "most of host memory in naive_best_fit's chunk"),
    ("initial_cpu_memory_in_mb", 500, "MB of naive_best_fit's first chunk"),
    ("free_idle_chunk", False, "give idle chunks back at once"),
    ("refluid_fluid_cpu_faults", False, "compute as Fluid's CPU kernels where these are wrong"),
    ("refluid_tier", "auto", "how plans run (refluid only), see docs/tiers.md"),
    ("refluid_dynamic_start", True, "scripts of Paddle 2 start as in Paddle 2 (refluid only)"),
    ("refluid_replicas", "auto", "how CPU replicas run (refluid only), see docs/strategies.md"),
    ("refluid_adaptive_threads", True, "fewer threads where that takes less time (refluid only)"),
    ("refluid_cuda_graphs", True, "recorded steps on a GPU as CUDA graphs (refluid only)"),
    ("refluid_overlap_exchange", True, "processes exchange while they compute (refluid only)"),
    ("refluid_counted_loops", True, "loops that count do so in Python (refluid only)"),
    ("refluid_kept_loops", True, "compiled loops are loaded without numba (refluid only)"),
    ("refluid_nccl", True, "processes sum gradients on GPUs by NCCL (refluid only)"),
    ("refluid_overlap_geo", True, "GEO exchanges while training goes on (refluid only)"),
    ("refluid_near_sockets", True, "servers of this host are called without TCP (refluid only)"),
    ("refluid_near_memory", True, "servers of this host share memory with callers (refluid only)"),
    ("refluid_known_updates", True, "updates of the same tensors are prepared (refluid only)"),
    ("refluid_rows_together", True, "tables' sparse updates are one call (refluid only)"),
    ("refluid_last_uses", True, "recorded kernels write over what is spent (refluid only)"),
    ("refluid_huge_pages", True, "memory in use becomes huge pages, on Linux (refluid only)"),
    ("refluid_shared_rows", True, "threads share updates of many rows (refluid only)"),
    (
        "refluid_one_pass_updates",
        True,
        "updates without fused kernels pass over memory once (refluid only)",
    ),
    ("refluid_found_rows", True, "SGD takes rows of dense gradients of tables (refluid only)"),
    ("refluid_fused_attention", True, "attention is one kernel on the CPU (refluid only)"),
    ("refluid_dropout_loop", True, "dropout of many numbers is one pass (refluid only)"),
    ("refluid_recurrent_loops", True, "LSTMs, GRUs, tags are by compiled loops (refluid only)"),
    ("refluid_softmax_loop", True, "large cross entropies pass over memory once (refluid only)"),
    ("refluid_prefetch_rows", True, "rows of the next batch come with a push (refluid only)"),
    ("refluid_eager_direct", True, "dygraph calls operators without plans (refluid only)"),
    (
        "refluid_declarative_hands",
        True,
        "declarative functions give parameters their gradients (refluid only)",
    ),
    (
        "refluid_declarative_whole",
        True,
        "declarative functions wait, so that a whole step is one program's run (refluid only)",
    ),
    (
        "refluid_eager_known_updates",
        True,
        "in dygraph, `minimize` finds the last step's gradients again (refluid only)",
    ),
    (
        "refluid_eager_shared_weights",
        True,
        "in dygraph, one gradient of a weight for all its uses (refluid only)",
    ),
    (
        "refluid_packed_weights",
        True,
        "a weight whose transpose is taken often is brought in MKL's order once (refluid only)",
    ),
    ("refluid_panel_products", True, "large products by own loops where faster (refluid only)"),
    (
        "refluid_loop_row_sums",
        True,
        "gradients of weights that `while` loops add up come of all rounds at once (refluid only)",
    ),
    (
        "refluid_flushed_gradients",
        True,
        "where a recorded step makes gradients, results below 1.2e-38 are zeros (refluid only)",
    ),
    (
        "refluid_gathered_kernels",
        True,
        "lookups are compiled, with the kernels that they and updates lie between (refluid only)",
    ),
    (
        "refluid_unrolled_loops",
        True,
        "loops of StaticRNN are recorded as the kernels of all their steps (refluid only)",
    ),
    ("refluid_inlined_operators", True, "plans with sequences call torch directly (refluid only)"),
    (
        "refluid_rounded_products",
        True,
        "oneDNN's products of many sizes are computed with few, as each keeps code (refluid only)",
    ),
    ("refluid_native_kernels", "", "operators, by commas, left to torch's kernels (refluid only)"),
    (
        "refluid_onednn_from",
        -1,
        "multiplications from which products are oneDNN's; negative: as measured (refluid only)",
    ),
    ("refluid_channels_last", "auto", "whether filters lie channels-last (refluid only)"),
    ("refluid_record_after", 3, "steps of the same shapes before one is recorded (refluid only)"),
    ("refluid_batch_parts", 1, "parts of a batch that a step goes through in turn (refluid only)"),
    ("refluid_exchange_seconds", 300.0, "how long a trainer waits for another (refluid only)"),
    ("refluid_meeting_seconds", 900.0, "how long trainers wait for all to come (refluid only)"),
    ("refluid_verify_passes", False, "verify programs before and after each pass (refluid only)"),
    ("check_nan_inf", False, "check every output for NaN and infinity; slow"),
    ("fast_check_nan_inf", False, "the same, looked at once at the end of each step"),
    ("init_allocated_mem", False, "fill new memory with junk, to find reads of unset values"),
    ("call_stack_level", 1, "errors show: 0 the message, 1 the user's line, 2 refluid's too"),
    ("eager_delete_tensor_gb", 0.0, "GB of garbage freed together; negative: at the step's end"),
    ("fuse_parameter_groups_size", 1, "gradients per fused all-reduce; 1: by size, -1: all"),
    ("fuse_parameter_memory_size", -1.0, "MB of gradients summed at once; -1: 25, in a process 4"),
    ("reader_queue_speed_test_mode", False, "readers return their batch again and never end"),
    ("cpu_deterministic", False, "nothing that is timed decides what is computed, nor how"),
    ("paddle_num_threads", 1, "threads of one operator on the CPU; torch's number if never set"),
    ("print_sub_graph_dir", "", "file that receives unconnected sub-graphs"),
    ("communicator_fake_rpc", False, "leave calls to servers out, to time the rest"),
    ("communicator_independent_recv_thread", True, "receive parameters in a thread of its own"),
    ("communicator_is_sgd_optimizer", True, "sum gradients of threads instead of averaging"),
    ("communicator_max_merge_var_num", 20, "most gradients merged into one push"),
    ("communicator_min_send_grad_num_before_recv", 20, "pushes before parameters are pulled"),
    ("communicator_send_queue_size", 20, "gradients that may wait to be pushed, per variable"),
    ("communicator_send_wait_times", 5, "waits for more gradients before a smaller push"),
    ("rpc_deadline", 180000, "milliseconds after which a call to a server fails"),
    ("rpc_get_thread_num", 12, "a server's threads for pulls, as programs say it"),
    ("rpc_prefetch_thread_num", 12, "a server's threads for pulls of rows, as programs say it"),
    ("rpc_send_thread_num", 12, "a server's threads for pushes, as programs say it"),
    ("worker_update_interval_secs", 900, "seconds of silence after which a worker counts as lost"),
    ("use_mkldnn", False, "oneDNN's kernels, where a strategy names no operators for them"),
    ("use_system_allocator", False, "leave malloc as it is: freed memory returns to the system"),
]

_EFFECTIVE_GPU: list[_Row] = [
    ("fast_eager_deletion_mode", True, "free memory before the kernels that use it have ended"),
    ("gpu_memory_limit_mb", 0, "most MB of GPU memory; 0: no limit"),
    ("fraction_of_gpu_memory_to_use", 0.92, "share of a GPU that naive_best_fit takes at once"),
    ("initial_gpu_memory_in_mb", 0, "MB of naive_best_fit's first chunk; 0: by fraction"),
    ("use_pinned_memory", True, "lock the pages of host memory"),
    ("benchmark", False, "wait for each operator, so that times are true"),
    ("conv_workspace_size_limit", 512, "MB of workspace for cuDNN's convolutions"),
    ("cudnn_deterministic", False, "deterministic cuDNN algorithms; on CPUs as cpu_deterministic"),
    ("cudnn_exhaustive_search", False, "time all cuDNN convolution algorithms, keep the fastest"),
    ("enable_cublas_tensor_op_math", False, "TF32 and short sums in products on GPUs"),
    ("selected_gpus", "", "comma-separated device numbers that cuda_places() returns"),
]

_ALWAYS: list[_Row] = [
    ("communicator_thread_pool_size", 5, "all servers are asked at once, by one thread"),
    ("communicator_merge_sparse_grad", True, "merge equal rows before a push"),
    ("correct_cpu_faults", True, "right numbers where Fluid's CPU kernels give wrong ones"),
    ("enable_parallel_graph", False, "one graph per device, each with its own workers"),
]

_NOT_YET: list[_Row] = [
    ("enable_rpc_profiler", False, "profile parameter server calls"),
    ("dist_threadpool_size", 0, "threads of distributed operators; 0: one per core"),
    ("io_threadpool_size", 100, "threads that do input and output"),
    ("tracer_profile_fname", "xxgperf", "file for a profile of the dygraph tracer"),
    ("dygraph_debug", 0, "debug level of dygraph"),
    ("rpc_disable_reuse_port", False, "never share a server's port"),
    ("rpc_retry_bind_port", 3, "attempts to bind a server's port"),
    ("rpc_retry_times", 3, "attempts of a call to a server"),
    ("rpc_server_profile_path", "./profile_ps", "prefix of a server's profile files"),
]

_NO_COUNTERPART: list[_Row] = [
    ("use_stride_kernel", True, "results that may be views of their inputs (Paddle 2)"),
    ("local_exe_sub_scope_limit", 256.0, "MB of local scopes per device; -1: no limit"),
    ("eager_delete_scope", True, "delete local scopes at once"),
    ("free_when_no_cache_hit", False, "give idle chunks back when none fits"),
    ("enable_unused_var_check", False, "warn of operator inputs that are never read"),
    ("skip_fused_all_reduce_check", False, "trust that fused gradients lie side by side"),
    ("inner_op_parallelism", 0, "threads inside operators that split their own work"),
    ("pe_profile_fname", "", "file for a profile of ParallelExecutor"),
    ("multiple_of_cupti_buffer_size", 1, "size of the GPU profiler's buffer"),
    ("nt", 1, "threads of the stand-alone trainer"),
    ("max_body_size", 2147483647, "largest message of the brpc transport, bytes"),
    ("unittest", False, "set by Fluid's own tests"),
    ("color", True, "coloured log lines"),
    ("cuda_dir", "", "folder of CUDA's libraries"),
    ("cudnn_dir", "", "folder of cuDNN"),
    ("cupti_dir", "", "folder of CUPTI"),
    ("mklml_dir", "", "folder of MKL"),
    ("nccl_dir", "", "folder of NCCL"),
    ("op_dir", "", "folder of operator libraries"),
    ("tensorrt_dir", "", "folder of TensorRT"),
    ("devices", "", "devices of the stand-alone inference demo"),
    ("init_p2p", False, "peer access in the stand-alone inference demo"),
    ("math_num_threads", 1, "threads of the stand-alone inference demo"),
    ("profile", False, "profile the stand-alone inference demo"),
    ("dump_jitcode", False, "write generated machine code to files"),
    ("flrpc_get_thread_num", 12, "threads that pull in federated learning"),
    ("flrpc_send_thread_num", 12, "threads that push in federated learning"),
]

_NO_COUNTERPART_GPU: list[_Row] = [
    ("sync_nccl_allreduce", True, "wait for each NCCL all-reduce"),
    ("fraction_of_cuda_pinned_memory_to_use", 0.5, "share of host memory used as pinned memory"),
    ("cudnn_batchnorm_spatial_persistent", False, "cuDNN's persistent batch normalisation"),
    ("gpu_allocator_retry_time", 10000, "milliseconds an allocation waits for memory"),
    ("reallocate_gpu_memory_in_mb", 0, "MB of further chunks; 0: by fraction_of_gpu_memory_to_use"),
]

_UNSIGNED = {
    "conv_workspace_size_limit",
    "dygraph_debug",
    "gpu_memory_limit_mb",
    "initial_cpu_memory_in_mb",
    "initial_gpu_memory_in_mb",
    "reallocate_gpu_memory_in_mb",
    "refluid_record_after",
}

_WHY = {
    "correct_cpu_faults": "changes nothing: numbers are right in any case, those of Fluid's CPU "
    "kernels where they are wrong come by FLAGS_refluid_fluid_cpu_faults=1",
    "local_exe_sub_scope_limit": "bounds what local scopes keep from run to run; here they keep "
    "nothing, and num_iteration_per_drop_scope says when freed memory goes back to the system",
    "sync_nccl_allreduce": "is about NCCL; replicas of one process exchange gradients without it, "
    "on the stream that computes them, so there is nothing to wait for",
}

_MOST = {"paddle_num_threads": MOST_THREADS}

_CHOICES = {
    "refluid_tier": ("auto", "interpreted", "recorded", "compiled"),
    "refluid_replicas": ("auto", "threads"),
    "refluid_channels_last": ("auto", "always", "never"),
}

FLAGS: dict[str, Flag] = {
    name: Flag(
        name,
        default,
        status,
        text,
        gpu,
        0 if name in _UNSIGNED else None,
        _MOST.get(name, 2**63 - 1),
        _CHOICES.get(name, ()),
        _WHY.get(name, ""),
    )
    for rows, status, gpu in (
        (_EFFECTIVE, Status.EFFECTIVE, False),
        (_EFFECTIVE_GPU, Status.EFFECTIVE, True),
        (_ALWAYS, Status.ALWAYS, False),
        (_NOT_YET, Status.NOT_YET, False),
        (_NO_COUNTERPART, Status.NO_COUNTERPART, False),
        (_NO_COUNTERPART_GPU, Status.NO_COUNTERPART, True),
    )
    for name, default, text in rows
}
"""Every flag by its name without `FLAGS_`."""
