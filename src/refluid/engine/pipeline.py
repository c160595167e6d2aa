"""The passes, all of them, in the order in which they are applied, and when each is.

Those that only take work away run in every program, the others where a strategy, or the way a
program is run, asks for it. `refluid inspect --after NAME` shows what one of them does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from operator import attrgetter
from typing import Any, Generic, TypeVar

from refluid.engine.setting import AS_USUAL, Setting, parallel_of, sharding_of
from refluid.engine.verifying import verified
from refluid.ir.program import Program
from refluid.ops.registry import with_fact
from refluid.passes import (
    add_table_rows,
    early_updates,
    fold_weight_decay,
    half_on_cpu,
    time_steps,
)
from refluid.passes.data_parallel import GradientScaleStrategy, data_parallel
from refluid.passes.forward_only import forward_only
from refluid.passes.gradient_merge import GradientMerge, gradient_merge
from refluid.passes.mixed_precision import HalfPrecision, mixed_precision
from refluid.passes.protocol import Options, Report
from refluid.passes.recompute_activations import recompute_activations
from refluid.passes.rewrite import Rule, apply
from refluid.passes.sharding import shard
from refluid.passes.sync_batch_norm import sync_batch_norm

O = TypeVar("O")  # noqa: E741


@dataclass(frozen=True)
class PipelinePass(Generic[O]):
    """A named pass.

    rewrite: does so in place. wanted: whether a setting asks for it. options: its own. starts:
    types of operators without which it has nothing to do, empty for any. useful: whether it is
    worth a copy of the program.
    """

    name: str
    rewrite: Callable[[Program, O], Report]
    wanted: Callable[[Setting], bool]
    options: Callable[[Setting], O]
    starts: Callable[[], frozenset[str]] = frozenset
    useful: Callable[[Program, O], bool] = lambda _program, _options: True


def _kept(setting: Setting) -> Options:
    return Options(setting.kept)


def _always(setting: Setting) -> bool:
    return not setting.as_written


def _rules(
    name: str, wanted: Callable[[Setting], bool], module: str = "", which: str = "RULES"
) -> PipelinePass[Options]:
    """The pass of rules that a module of its name, or another one, has; read when it is wanted."""

    @cache
    def rules() -> Sequence[Rule]:
        found: Sequence[Rule] = getattr(import_module(f"refluid.passes.{module or name}"), which)
        return found

    def starts() -> frozenset[str]:
        return frozenset[str]().union(*(rule.starts for rule in rules()))

    def rewrite(program: Program, options: Options) -> Report:
        return apply(rules(), program, options)

    return PipelinePass(name, rewrite, wanted, _kept, starts)


def _with_fact(name: str) -> Callable[[], frozenset[str]]:
    return lambda: with_fact(name)


def _update_mixed_by_tiles(program: Program, options: Options) -> Report:
    from refluid.passes.update_mixed_by_tiles import update_mixed_by_tiles  # few programs need it

    return update_mixed_by_tiles(program, options)


def _option(name: str) -> Callable[[Setting], bool]:
    return attrgetter(f"strategy.{name}")


def _is_on_cpu(setting: Setting) -> bool:
    return setting.device.type == "cpu"


def _mixes(setting: Setting) -> bool:
    """Whether products may be of two types: their gradients take twice the bytes to exchange."""
    return _always(setting) and _is_on_cpu(setting) and setting.replicas == 1


def _is_parallel(setting: Setting) -> bool:
    own_scale = int(setting.strategy.gradient_scale_strategy) == GradientScaleStrategy.Customized
    return not setting.stage and (setting.replicas > 1 or own_scale)


# While a program is built: of optimizers, which know the program before it has a backward pass.
BUILDING: tuple[PipelinePass[Any], ...] = (
    PipelinePass(
        "mixed_precision",
        mixed_precision,
        lambda setting: setting.precision is not None,
        lambda setting: setting.precision or HalfPrecision(),
    ),
    PipelinePass(
        "gradient_merge",
        gradient_merge,
        lambda setting: setting.merge is not None,
        lambda setting: setting.merge or GradientMerge(2),
    ),
)
# Before it is run: what is the same for all replicas.
FUSING: tuple[PipelinePass[Any], ...] = (
    PipelinePass("forward_only", forward_only, attrgetter("inference"), _kept),
    PipelinePass(
        "sync_batch_norm",
        sync_batch_norm,
        lambda setting: setting.strategy.sync_batch_norm and setting.replicas > 1,
        _kept,
        _with_fact("synchronised"),
    ),
    PipelinePass(
        "batch_time_steps",
        time_steps.batch_time_steps,
        _always,
        _kept,
        lambda: time_steps.STARTS,
    ),
    PipelinePass(
        "add_table_rows", add_table_rows.add_table_rows, _always, _kept, _with_fact("gives_rows")
    ),
    _rules("fuse_relu_depthwise_conv", _option("fuse_relu_depthwise_conv")),
    _rules("fuse_bn_add_act_ops", _option("fuse_bn_add_act_ops"), "fuse_bn_act", "OF_SUMS"),
    _rules("fuse_bn_act_ops", _option("fuse_bn_act_ops"), "fuse_bn_act"),
    _rules("fuse_gemm_epilogue", _option("fuse_gemm_epilogue")),
    _rules("fuse_elewise_add_act_ops", _option("fuse_elewise_add_act_ops"), "fuse_elewise_add_act"),
    _rules("fuse_softmax_cross_entropy", _option("enable_auto_fusion")),
    _rules("fuse_conv_bias", _always),
    _rules("fuse_gemm_bias", _always, "fuse_gemm_epilogue", "BIAS"),
    _rules("mix_large_products", _mixes),
    _rules("fuse_squared_norm", _always),
    PipelinePass(
        "update_table_rows",
        add_table_rows.update_table_rows,
        lambda setting: setting.finds_rows and setting.replicas == 1 and not setting.as_written,
        _kept,
        _with_fact("gives_rows"),
    ),
    # After the one before, which takes plain updates alone.
    PipelinePass(
        "fold_weight_decay",
        fold_weight_decay.fold_weight_decay,
        _always,
        lambda setting: fold_weight_decay.Decays(setting.kept),
        _with_fact("decays"),
    ),
    _rules("fuse_attention", lambda setting: setting.attends and not setting.as_written),
)
# For each replica.
PLACING: tuple[PipelinePass[Any], ...] = (
    PipelinePass("data_parallel", data_parallel, _is_parallel, parallel_of),
    PipelinePass("sharding", shard, lambda setting: setting.stage > 0, sharding_of),
    PipelinePass(
        "recompute_activations",
        recompute_activations,
        attrgetter("saves"),
        _kept,
        _with_fact("activation"),
    ),
    PipelinePass(
        "early_updates",
        early_updates.early_updates,
        attrgetter("updates_early"),
        lambda _setting: early_updates.UpdateGroups(),
        useful=early_updates.is_useful,
    ),
    _rules("update_by_tiles", attrgetter("updates_by_tiles")),
    PipelinePass(
        "update_mixed_by_tiles",
        _update_mixed_by_tiles,
        attrgetter("updates_by_tiles"),
        _kept,
        _with_fact("clears"),
    ),
    PipelinePass(
        "half_on_cpu",
        half_on_cpu.half_on_cpu,
        _is_on_cpu,
        _kept,
        useful=half_on_cpu.is_useful,
    ),
)
PASSES = (*BUILDING, *FUSING, *PLACING)
BY_NAME = {one.name: one for one in PASSES}


@dataclass(frozen=True)
class Rewritten:
    """A rewritten program (the given one where nothing was done), and a report of each pass."""

    program: Program
    reports: Mapping[str, Report] = field(default_factory=dict)

    @property
    def subgraphs(self) -> int:
        """How many operators were made of several."""
        return sum(len(report.made) for report in self.reports.values())


def build(program: Program, setting: Setting) -> Mapping[str, Any]:
    """Applies what optimizers are asked for to a program that is being built; the reports."""
    wanted = [one for one in BUILDING if one.wanted(setting)]
    return {
        one.name: verified(one.name, one.rewrite, program, one.options(setting)) for one in wanted
    }


def rewrite(
    program: Program,
    settings: Sequence[Setting],
    seen: Callable[[str, Program], None] | None = None,
) -> list[Rewritten]:
    """The program of each replica, whose settings differ in rank and device only.

    seen: is called with the programs of three stages as they come.
    """
    first, seen = settings[0], seen or _ignore
    seen("original", program)
    shared = run_passes(program, [one for one in FUSING if one.wanted(first)], first)
    seen("fused", shared.program)
    found = []
    for setting in settings:
        own = len(settings) == 1 and shared.program is not program
        passes = [one for one in PLACING if one.wanted(setting)]
        done = run_passes(shared.program, passes, setting, owned=own)
        found.append(Rewritten(done.program, {**shared.reports, **done.reports}))
    if {"data_parallel", "sharding"} & found[0].reports.keys():
        seen("multi_devices", found[0].program)
    return found


def _ignore(_stage: str, _program: Program) -> None:
    pass


def run_passes(
    program: Program,
    passes: Iterable[PipelinePass[Any]],
    setting: Setting = AS_USUAL,
    *,
    owned: bool = False,
) -> Rewritten:
    """A copy of the program after these passes, in their order; `owned`: the program itself."""
    target, changed = program, owned
    types = {op.type for block in program.blocks for op in block.ops}
    reports: dict[str, Report] = {}
    for one in passes:
        options = one.options(setting)
        starts = one.starts()
        if (starts and not starts & types) or not one.useful(target, options):
            continue
        if target is program and not owned:
            target = program.clone()
        report = verified(one.name, one.rewrite, target, options, fed=setting.kept)
        reports[one.name] = report
        if report:
            changed = True
            types = {op.type for block in target.blocks for op in block.ops}
    return Rewritten(target if changed else program, reports)
