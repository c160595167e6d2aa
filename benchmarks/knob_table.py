"""Every public knob, from the tables of the code itself, and what it is for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from refluid import fluid
from refluid.core.flag_table import FLAGS, Status
from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate
from refluid.fluid.fusing import EXECUTION_WITHOUT_EFFECT, WITHOUT_EFFECT
from refluid.fluid.strategies import BuildStrategy, ExecutionStrategy


@dataclass(frozen=True)
class Knob:
    """why_not: why there is nothing to measure; empty where a case measures it."""

    group: str
    name: str
    default: str
    does: str
    why_not: str = ""


NUMBERS = "changes the numbers, not the speed"
CHECKED = "for the eye, not for speed"
NEEDS_GPU = "acts on a GPU only"

_BUILD = {
    "build_cinn_pass": "chains of small operators become compiled code, as by `enable_auto_fusion`",
    "debug_graphviz_path": f"writes the graphs before and after passes; {CHECKED}",
    "enable_auto_fusion": "`softmax` and `cross_entropy` become one operator; chains of small "
    "operators become compiled code",
    "enable_backward_optimizer_op_deps": "with several threads, updates wait for all gradients",
    "enable_inplace": "operators write over inputs that nobody needs any more",
    "enable_sequential_execution": "one thread per place, in the order of the program",
    "fuse_all_optimizer_ops": "updates of one kind are one multi-tensor call; always done, so this "
    "only logs it",
    "fuse_all_reduce_ops": "gradients are exchanged several at a time",
    "fuse_bn_act_ops": "batch norm and activation are one operator",
    "fuse_bn_add_act_ops": "batch norm, sum and activation are one operator",
    "fuse_broadcast_ops": "in Reduce mode, updated parameters are sent together",
    "fuse_elewise_add_act_ops": "a sum and its activation are one operator",
    "fuse_gemm_epilogue": "product, bias and activation are one operator",
    "fuse_relu_depthwise_conv": "relu before a depthwise convolution isn't kept",
    "gradient_scale_strategy": f"mean, sum or own scale of the replicas' gradients; {NUMBERS}",
    "memory_optimize": "cheap activations are computed again; unset: where garbage isn't freed, "
    "values pass their memory on; False: updates wait for all gradients",
    "mkldnn_enabled_op_types": "which operators use oneDNN's kernels",
    "reduce_strategy": "AllReduce: every place updates all parameters; Reduce: each its share",
    "sync_batch_norm": f"statistics over all places' batches; {NUMBERS}",
}
_EXECUTION = {
    "num_iteration_per_drop_scope": "after how many runs freed memory goes back to the system",
    "num_iteration_per_run": "steps for each call of `run`",
    "num_threads": "threads that run operators out of order, over all places",
}
_READER = {
    "capacity": "batches that may wait in the queue: more even out a generator of uneven speed",
    "drop_last": f"whether a last batch that is too small is left out; {NUMBERS}",
    "feed_list": "the variables that batches are for; a need, not a choice",
    "iterable": "batches are fed by the loop, or come by `start`; a need, not a choice",
    "return_list": "batches as lists instead of dicts; a need, not a choice",
    "use_double_buffer": "batches go to the GPU while the step before runs",
    "use_multiprocess": "the generator runs in a process of its own",
}
_AMP = {
    "amp_lists": "which operators are half precision",
    "init_loss_scaling": f"the first loss scale; {NUMBERS}",
    "incr_every_n_steps": f"finite steps before the scale grows; {NUMBERS}",
    "decr_every_n_nan_or_inf": f"steps with infinite gradients before it shrinks; {NUMBERS}",
    "incr_ratio": f"how much it grows; {NUMBERS}",
    "decr_ratio": f"how much it shrinks; {NUMBERS}",
    "use_dynamic_loss_scaling": f"whether it changes at all; {NUMBERS}",
    "custom_white_list": "operators that are half precision besides",
    "custom_black_list": "operators that stay float32 besides",
    "custom_black_varnames": "variables whose readers and writers stay float32",
}
_OPTIMIZERS = {
    "RecomputeOptimizer": "only checkpoints are kept for the backward pass",
    "GradientMergeOptimizer": "gradients of k batches are added before one update",
    "LookaheadOptimizer": f"slow and fast weights; {NUMBERS}",
    "ModelAverage": f"the mean of past weights for evaluation; {NUMBERS}",
    "ExponentialMovingAverage": f"the moving mean of weights for evaluation; {NUMBERS}",
    "DGCMomentumOptimizer": "only the largest gradients are exchanged",
    "PipelineOptimizer": "parts of the network on devices of their own",
}
_WHY_NOT = {
    "build_cinn_pass": "as `enable_auto_fusion`",
    "fuse_all_optimizer_ops": "done in any case",
    "fuse_broadcast_ops": "the replicas of one process share parameters, so nothing is sent",
    "capacity": "evens out what differs from batch to batch",
    "use_multiprocess": "pays where the generator itself is slow: timed in feeding.md",
    "use_double_buffer": f"{NEEDS_GPU}: on the CPU batches are where they are needed",
    "custom_white_list": "part of `amp_lists`, see `decorate`",
    "custom_black_list": "part of `amp_lists`, see `decorate`",
    "amp_lists": "see `decorate`",
    "DGCMomentumOptimizer": "gains on slow networks between machines; one process has none",
    "PipelineOptimizer": "gains with several devices",
    "refluid_fluid_cpu_faults": "for comparisons with what Fluid computed on a CPU",
    "refluid_tier": "see benchmarks.md, which compares the tiers",
    "refluid_adaptive_threads": "see benchmarks.md, which measures it beside busy processes",
    "refluid_cuda_graphs": f"{NEEDS_GPU}; none has measured it yet",
    "init_allocated_mem": "for finding faults, not for speed: see profiling.md",
    "call_stack_level": "only says how long error messages are",
    "reader_queue_speed_test_mode": "for timing readers: batches come back again without end",
    "print_sub_graph_dir": "for the eye, not for speed",
    "fuse_parameter_groups_size": "the other way to say `FLAGS_fuse_parameter_memory_size`",
    "fraction_of_cpu_memory_to_use": "bounds `FLAGS_initial_cpu_memory_in_mb`",
    "initial_cpu_memory_in_mb": "the size for `FLAGS_allocator_strategy`",
    "use_mkldnn": "as `mkldnn_enabled_op_types`, for all operators",
    "enable_backward_optimizer_op_deps": "False lets updates start early where threads are idle",
    "enable_sequential_execution": "the way back from `num_threads`",
    "custom_black_varnames": "part of `amp_lists`, see `decorate`",
}
_REASONS = (NUMBERS, CHECKED, "a need, not a choice")
_STATUS = {
    Status.NOT_YET: "not in refluid yet; setting it is said so in the log",
    Status.NO_COUNTERPART: "PyTorch does that part of the work; setting it is said so in the log",
    Status.ALWAYS: "so in any case",
}


def knobs(measured: set[str]) -> list[Knob]:
    """All of them. measured: the names of those that a case measures."""
    return [_with_reason(knob, measured) for knob in _all()]


def _all() -> Iterator[Knob]:
    yield from _strategy("BuildStrategy", BuildStrategy._defaults, _BUILD, WITHOUT_EFFECT)
    yield from _strategy(
        "ExecutionStrategy", ExecutionStrategy._defaults, _EXECUTION, EXECUTION_WITHOUT_EFFECT
    )
    for name, flag in sorted(FLAGS.items()):
        why = flag.why or _STATUS.get(flag.status, NEEDS_GPU if flag.gpu else "")
        yield Knob("FLAGS", f"FLAGS_{name}", repr(flag.default), flag.help, why)
    yield from _arguments("DataLoader.from_generator", fluid.io.DataLoader.from_generator, _READER)
    yield Knob("mixed precision", "decorate", "", "half precision where it pays, float32 elsewhere")
    yield from _arguments("mixed precision", decorate, _AMP, without=("optimizer",))
    yield from _arguments("mixed precision", AutoMixedPrecisionLists, _AMP)
    for name, does in _OPTIMIZERS.items():
        yield Knob("optimizer wrappers", name, "", does)


def _strategy(
    group: str, defaults: Mapping[str, Any], does: Mapping[str, str], unused: Mapping[str, str]
) -> Iterator[Knob]:
    for name, default in defaults.items():
        shown = str(getattr(default, "name", None) or repr(default))
        if name in unused:
            yield Knob(group, name, shown, "no effect, as the log says", unused[name])
        else:
            yield Knob(group, name, shown, does[name])


def _arguments(
    group: str, function: Any, does: Mapping[str, str], without: tuple[str, ...] = ()
) -> Iterator[Knob]:
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in without:
            yield Knob(group, name, repr(parameter.default), does[name])


def _with_reason(knob: Knob, measured: set[str]) -> Knob:
    if knob.name in measured:
        return Knob(knob.group, knob.name, knob.default, knob.does)
    if knob.why_not:
        return knob
    does, why = knob.does, _WHY_NOT.get(knob.name.removeprefix("FLAGS_"), "")
    for reason in _REASONS:
        if does.endswith(f"; {reason}"):
            does, why = does.removesuffix(f"; {reason}"), reason
    return Knob(knob.group, knob.name, knob.default, does, why)
