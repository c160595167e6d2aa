"""Combinations of strategy switches in which every pair of values occurs."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from refluid import fluid
from refluid.core import flags
from refluid.engine.strategy import BUILD, EXECUTION
from refluid.ir.program import Program
from refluid.verify import replay
from refluid.verify.recordings import Recording

Combination = dict[str, Any]
Reduce = fluid.BuildStrategy.ReduceStrategy
Scale = fluid.BuildStrategy.GradientScaleStrategy

SWITCHES: dict[str, tuple[Any, ...]] = {
    "places": (1, 2),
    "num_threads": (1, 4),
    "num_iteration_per_drop_scope": (1, 100),
    "num_iteration_per_run": (1, 2),
    "reduce_strategy": (Reduce.AllReduce, Reduce.Reduce),
    "fuse_all_reduce_ops": (False, True),
    "fuse_broadcast_ops": (False, True),
    "enable_sequential_execution": (False, True),
    "enable_backward_optimizer_op_deps": (False, True),
    "fuse_all_optimizer_ops": (False, True),
    "fuse_elewise_add_act_ops": (False, True),
    "fuse_bn_act_ops": (False, True),
    "fuse_bn_add_act_ops": (False, True),
    "fuse_relu_depthwise_conv": (False, True),
    "fuse_gemm_epilogue": (False, True),
    "enable_auto_fusion": (False, True),
    "build_cinn_pass": (False, True),
    "sync_batch_norm": (False, True),
    "gradient_scale_strategy": (Scale.CoeffNumDevice, Scale.One),
    "enable_inplace": (False, True),
    "memory_optimize": (None, False, True),
    "mkldnn_enabled_op_types": (frozenset(), frozenset({"conv2d"}), frozenset({"mul"})),
    "FLAGS_use_mkldnn": (False, True),
    "FLAGS_refluid_tier": ("auto", "recorded"),
    "FLAGS_eager_delete_tensor_gb": (0.0, 0.001, -1.0),
    "FLAGS_fuse_parameter_memory_size": (-1.0, 0.001),
    "FLAGS_fuse_parameter_groups_size": (1, 2),
    "FLAGS_memory_fraction_of_eager_deletion": (1.0, 0.3),
    "FLAGS_fast_eager_deletion_mode": (True, False),
    "FLAGS_free_idle_chunk": (False, True),
    "FLAGS_refluid_replicas": ("auto", "threads"),
    "FLAGS_cpu_deterministic": (False, True),
    "FLAGS_enable_parallel_graph": (False, True),
    "without effect": (False, True),
}
# With these, plans are interpreted and their operators the user's, so they join some rows only.
WATCHERS = ("FLAGS_check_nan_inf", "FLAGS_fast_check_nan_inf", "FLAGS_init_allocated_mem")
OTHER: dict[type, Any] = {
    bool: lambda old: not old,
    int: lambda old: old + 2,
    list: lambda _: ["x"],
}


def pairs_of(row: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    """All pairs of (switch, value) in a combination."""
    yield from itertools.combinations(row.items(), 2)


def all_pairs(switches: Mapping[str, Sequence[Any]] = SWITCHES) -> list[Combination]:
    """Few combinations that together hold every pair; the same ones every time."""
    draw = random.Random(7)
    left = {
        ((one, a), (two, b))
        for one, two in itertools.combinations(switches, 2)
        for a in switches[one]
        for b in switches[two]
    }
    rows: list[Combination] = []
    while left:
        drawn = [
            {name: draw.choice(values) for name, values in switches.items()} for _ in range(200)
        ]
        best = max(drawn, key=lambda row: len(left & set(pairs_of(row))))
        for pair in sorted(left, key=str)[:1]:  # so that every round gets further
            best |= dict(pair)
        rows.append(best)
        left -= set(pairs_of(best))
    return rows


def flags_of(row: Combination) -> dict[str, Any]:
    """The flags among the switches."""
    return {name: value for name, value in row.items() if name.startswith("FLAGS_")}


def compile_as(program: Program, loss: str | None, row: Combination) -> fluid.CompiledProgram:
    """The program compiled so; the flags are to be set while it runs.

    On several places gradients are averaged whatever the row says: their sum is another training.
    """
    build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
    for owner, knobs in ((build, BUILD), (execution, EXECUTION)):
        for name in owner._options():
            if name in row:
                value = row[name]
                setattr(owner, name, set(value) if isinstance(value, frozenset) else value)
            elif knobs[name].ignored and row.get("without effect"):
                old = getattr(owner, name)
                setattr(owner, name, OTHER[type(old)](old))
    if row["places"] > 1:
        build.gradient_scale_strategy = Scale.CoeffNumDevice
    places = fluid.cpu_places(row["places"])
    return fluid.CompiledProgram(program).with_data_parallel(loss, build, execution, None, places)


def repeats(row: Combination) -> int:
    """How often each run of a combination makes a step with the same batch."""
    return int(row["num_iteration_per_run"])


def repeated(recording: Recording, times: int) -> Recording:
    """The recording with each step that often."""
    return replace(recording, steps=[step for step in recording.steps for _ in range(times)])


def running(row: Combination) -> Any:
    """Within the block the combination's flags hold."""
    return flags.override(flags_of(row))


def run_as(recording: Recording, row: Combination) -> replay.RunResults:
    """What a recording gives when its programs are compiled so."""
    made: Any = {
        tag: compile_as(program, loss_of(program), row)
        for tag, program in recording.programs.items()
    }
    with running(row):
        return replay.steps(replace(recording, programs=made))


def loss_of(program: Program) -> str | None:
    """The loss a recorded program is trained on."""
    for op in program.global_block().ops:
        if int(op.attrs.get("op_role", 0)) == 0x101:
            return op.output("Out")[0].removesuffix("@GRAD")
    return None
