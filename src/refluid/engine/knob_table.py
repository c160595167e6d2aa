"""Every knob that there is: of strategies, flags, readers, mixed precision, optimizer wrappers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from refluid.core.flag_table import FLAGS, Flag, Status
from refluid.engine.knob_effects import measured
from refluid.engine.knobs import Knob, KnobScope
from refluid.engine.strategy import BUILD, EXECUTION, FLEET, NUMBERS

NEED = "a need, not a choice"
_GPU = "acts on a GPU only"
_LISTS = "part of `amp_lists`, see `decorate`"

_READER = {
    "feed_list": (None, "the variables that batches are for", NEED),
    "capacity": (
        None,
        "batches that may wait in the queue: more even out a generator of uneven speed",
        "evens out what differs from batch to batch",
    ),
    "use_double_buffer": (
        True,
        "batches go to the GPU while the step before runs",
        f"{_GPU}: on the CPU batches are where they are needed",
    ),
    "iterable": (True, "batches are fed by the loop, or come by `start`", NEED),
    "return_list": (False, "batches as lists instead of dicts", NEED),
    "use_multiprocess": (
        False,
        "the generator runs in a process of its own",
        "pays where the generator itself is slow: timed in feeding.md",
    ),
    "drop_last": (True, "whether a last batch that is too small is left out", NUMBERS),
}
_LOADER = {
    "num_workers": (
        0,
        "processes that load a dataset's samples",
        "pays where samples are slow to make: timed in feeding.md",
    ),
}
_DATASET = {
    "thread": (
        0,
        "threads that train at once, each on files of its own; they share parameters",
        "",
    ),
}
_DYGRAPH = {
    "declarative": (
        False,
        "the `forward` of outermost layers runs as a program, as under `declarative`",
        "",
    ),
}
_PRECISION = {
    "decorate": (False, "half precision where it pays, float32 elsewhere", ""),
    "amp_lists": (None, "which operators are half precision", "see `decorate`"),
    "init_loss_scaling": (2**15, "the first loss scale", NUMBERS),
    "incr_every_n_steps": (1000, "finite steps before the scale grows", NUMBERS),
    "decr_every_n_nan_or_inf": (2, "steps with infinite gradients before it shrinks", NUMBERS),
    "incr_ratio": (2.0, "how much it grows", NUMBERS),
    "decr_ratio": (0.8, "how much it shrinks", NUMBERS),
    "use_dynamic_loss_scaling": (True, "whether it changes at all", NUMBERS),
    "custom_white_list": (None, "operators that are half precision besides", _LISTS),
    "custom_black_list": (None, "operators that stay float32 besides", _LISTS),
    "custom_black_varnames": (
        None,
        "variables whose readers and writers stay float32",
        _LISTS,
    ),
}
_WRAPPERS = {
    "RecomputeOptimizer": (False, "only checkpoints are kept for the backward pass", ""),
    "GradientMergeOptimizer": (False, "gradients of k batches are added before one update", ""),
    "LookaheadOptimizer": (False, "slow and fast weights", NUMBERS),
    "ModelAverage": (False, "the mean of past weights for evaluation", NUMBERS),
    "ExponentialMovingAverage": (False, "the moving mean of weights for evaluation", NUMBERS),
    "DGCMomentumOptimizer": (
        False,
        "only the largest gradients are exchanged",
        "gains on slow networks between machines; one process has none",
    ),
    "PipelineOptimizer": (
        False,
        "parts of the network on devices of their own",
        "gains with several devices",
    ),
}
_ENVIRONMENT = {
    "CPU_NUM": (
        1,
        "replicas of a program that is compiled with data parallelism for CPUs",
        "replicas share the cores, and take batches apart: see benchmarks.md",
    ),
}
_STATUS = {
    Status.NOT_YET: "not in refluid yet; setting it is said so in the log",
    Status.NO_COUNTERPART: "PyTorch does that part of the work; setting it is said so in the log",
    Status.ALWAYS: "so in any case",
}
_OF_SERVERS = """
communicator_fake_rpc communicator_independent_recv_thread communicator_is_sgd_optimizer
communicator_max_merge_var_num communicator_min_send_grad_num_before_recv
communicator_send_queue_size communicator_send_wait_times
"""
_PER_CALLER = "only written into programs: servers have a thread for each caller"
_UNMEASURED_FLAGS = {
    **dict.fromkeys(_OF_SERVERS.split(), "of parameter servers: see pserver.md"),
    "cpu_deterministic": "for runs that repeat to the bit: products, threads and compiled steps "
    "are those that need no timing",
    "call_stack_level": "only says how long error messages are",
    "fraction_of_cpu_memory_to_use": "bounds `FLAGS_initial_cpu_memory_in_mb`",
    "fuse_parameter_groups_size": "the other way to say `FLAGS_fuse_parameter_memory_size`",
    "init_allocated_mem": "for finding faults, not for speed: see profiling.md",
    "initial_cpu_memory_in_mb": "the size for `FLAGS_allocator_strategy`",
    "print_sub_graph_dir": "for the eye, not for speed",
    "reader_queue_speed_test_mode": "for timing readers: batches come back again without end",
    "refluid_adaptive_threads": "see benchmarks.md, which measures it beside busy processes",
    "refluid_cuda_graphs": f"{_GPU}: see tiers.md",
    "refluid_fluid_cpu_faults": "for comparisons with what Fluid computed on a CPU",
    "refluid_counted_loops": "gains in loops of small operators: see benchmarks.md",
    "refluid_kept_loops": "the first step of a program with sparse tables, or that reads text: "
    "docs/dependencies.md",
    "refluid_eager_direct": "gains in dygraph, which these networks aren't: docs/dygraph.md",
    "refluid_declarative_hands": "gains in declarative functions: docs/dygraph.md",
    "refluid_eager_shared_weights": "gains in dygraph, as well: docs/dygraph.md",
    "refluid_declarative_whole": "gains in dygraph, as well: docs/dygraph.md",
    "refluid_eager_known_updates": "gains in dygraph, as well: docs/dygraph.md",
    "refluid_huge_pages": "gains where steps read more than some megabytes, most in virtual "
    "machines. Two threads, in turns: the suite's LSTM language models 0.77 and 0.70, the "
    "MLP 0.74, CTR-DNN 0.82, MobileNet 0.83, the Transformer 0.82, ResNet-50 and BERT 0.88, NCF "
    "0.90 of the time without",
    "refluid_panel_products": "gains in large layers and recurrent steps where MKL is slow, in "
    "convolutions, and in large layers in mixed precision (mixed_precision.md). Two threads of an "
    "AMD EPYC with AVX2, in turns: BERT base 0.78, the suite's LSTM language models 0.92 and 0.84, "
    "seq2seq 0.90, the Transformer 0.90 and 1.02 of the time without; one thread of another told "
    "to use AVX2, processor time: VGG-16 0.78, ResNet-50 0.95",
    "refluid_packed_weights": "gains in StaticRNN, and in dygraph: see tiers.md",
    "refluid_loop_row_sums": "gains in DynamicRNN: see tiers.md",
    "refluid_flushed_gradients": "gains on Intel's processors where attention saturates: see "
    "benchmarks.md",
    "refluid_gathered_kernels": "gains in compiled steps with sparse tables: see tiers.md",
    "refluid_unrolled_loops": "gains in StaticRNN: see tiers.md",
    "refluid_inlined_operators": "gains in small networks of sequences. Recorded models, one "
    "thread: textclass_cnn 0.78, emotion_textcnn 0.77, simnet_gru 0.91 of the time without",
    "refluid_one_pass_updates": "gains with Lamb, LarsMomentum, RMSProp, Adamax, Adadelta: see "
    "benchmarks.md",
    "refluid_found_rows": "less memory with plain SGD on large tables: the suite's LSTM 332 MiB "
    "instead of 373. Time: 0.95 on one thread, 1.0 on two",
    "refluid_fused_attention": "less memory where programs attend: the Transformer 305 MiB "
    "instead of 330, BERT 1,752 instead of 1,922. Time on two threads: 0.97 and 1.01",
    "refluid_dropout_loop": "gains with dropout of 32,768 numbers and more. Of a million, with the "
    "gradient: 0.37 of the time on one thread, 0.27 on two",
    "refluid_recurrent_loops": "gains in `dynamic_lstm` and `dynamic_gru` of 131,072 numbers of "
    "gates and more. Two threads, in turns: the suite's tagger 0.90 of the time without, its LoD "
    "language model 0.93 and 0.98; one thread, while others ran: 0.88 and 0.81. Smaller ones have "
    "loops from the 64th call on, all steps of up to 262,144 multiplications in one call. Whole "
    "steps of one unit, one thread: width 16 of 5 sequences 0.38 (LSTM) and 0.48 (GRU), 64 of 16 "
    "0.60 and 0.71. CRFs of 2,097,152 multiplications and more, and smaller ones, `chunk_eval` and "
    "`auc` from the 64th call on: 57 tags of 5 short sentences 0.09 (CRF), 0.16 (gradient), 0.08 "
    "(decoding) of the time, of 64 sentences of 40 words 0.17, 0.4 and 0.07; `chunk_eval` 0.08, "
    "`auc` 0.28",
    "refluid_softmax_loop": "gains in losses of many classes. Two threads: softmax and logarithms "
    "of 640 x 10,000 logits 0.6 of torch's time, the LoD language model's step 0.95 of before, "
    "seq2seq's 0.99. One thread: sigmoid_cross_entropy_with_logits of 512 x 1000 with its gradient "
    "0.45 of the time without, cross_entropy of 131,072 x 50 0.6",
    "refluid_rounded_products": "gains where sizes vary, which these don't: docs/benchmarks.md",
    "refluid_record_after": "the first steps, and shapes that vary: see tiers.md",
    "refluid_exchange_seconds": "a bound, not for speed",
    "refluid_overlap_geo": "of parameter servers: see pserver.md",
    "refluid_near_sockets": "of parameter servers: see pserver.md",
    "refluid_near_memory": "of parameter servers: see pserver.md",
    "refluid_known_updates": "gains in small networks: one thread, recorded, a step of NCF takes "
    "0.86, of the MLP 0.94 of before; CTR-DNN, which is products, 1.01",
    "refluid_rows_together": "gains with several tables: 26 of 10,000 x 10, batch 64, lazy Adam, a "
    "step 0.79 of before (0.93 with seven, batch 256)",
    "refluid_last_uses": "gains in recorded steps of large tensors: the LSTM language model 0.98 "
    "of before; `BuildStrategy.enable_inplace` off switches it off, too",
    "refluid_shared_rows": "gains where lazy Adam updates many rows. Two threads on two cores: "
    "26 tables of 100,000 x 10, 1,000 rows of each, 0.58 of before; one table, 26,000 rows, 0.69, "
    "by which CTR-DNN's step takes 0.98",
    "refluid_prefetch_rows": "of parameter servers: see pserver.md",
    "refluid_meeting_seconds": "a bound, not for speed",
    "refluid_nccl": "several GPUs were not there to measure it",
    "refluid_overlap_exchange": "gains between processes (scaling.md); replicas of one process "
    "share its cores",
    "rpc_get_thread_num": _PER_CALLER,
    "rpc_prefetch_thread_num": _PER_CALLER,
    "rpc_send_thread_num": _PER_CALLER,
    "rpc_deadline": "a bound, not for speed",
    "worker_update_interval_secs": "a bound, not for speed",
    "refluid_verify_passes": "for finding faults, not for speed: see passes.md",
    "refluid_dynamic_start": "says what a script means, not how fast it is: docs/paddle2.md",
    "refluid_tier": "see benchmarks.md, which compares the tiers",
    "use_mkldnn": "as `mkldnn_enabled_op_types`, for all operators",
}


def knobs() -> Iterator[Knob]:
    """All knobs, those of one scope together, with what was measured of them."""
    effects, _ = measured()
    return (replace(knob, measured=effects.get(knob.name)) for knob in _all())


def _all() -> Iterator[Knob]:
    yield from BUILD.values()
    yield from EXECUTION.values()
    yield from FLEET.values()
    yield from (_of_flag(name, flag) for name, flag in sorted(FLAGS.items()))
    for scope, table in (
        (KnobScope.READER, _READER),
        (KnobScope.LOADER, _LOADER),
        (KnobScope.DATASET, _DATASET),
        (KnobScope.DYGRAPH, _DYGRAPH),
        (KnobScope.PRECISION, _PRECISION),
        (KnobScope.WRAPPER, _WRAPPERS),
        (KnobScope.ENVIRONMENT, _ENVIRONMENT),
    ):
        for name, (default, does, unmeasured) in table.items():
            yield Knob(name, scope, default, does, unmeasured=unmeasured)


def _of_flag(name: str, flag: Flag) -> Knob:
    ignored = flag.why or _STATUS.get(flag.status, "")
    unmeasured = _UNMEASURED_FLAGS.get(name, "") or (_GPU if flag.gpu else "")
    return Knob(
        f"FLAGS_{name}", KnobScope.FLAG, flag.default, flag.help, ignored, unmeasured, flag.maximum
    )
