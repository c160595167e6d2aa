"""The passes in the order in which they are applied, and when each is.

Those with an option of `BuildStrategy` run where it is set; the others in every program, for they
only take work away. `refluid inspect --after NAME` shows what one of them does to a program.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from refluid.ir.program import Program
from refluid.passes import (
    fuse_bn_act,
    fuse_bn_add_act,
    fuse_conv_bias,
    fuse_elewise_add_act,
    fuse_gemm_epilogue,
    fuse_relu_depthwise_conv,
    fuse_softmax_cross_entropy,
)
from refluid.passes.add_table_rows import STARTS as TABLE_GRADIENTS
from refluid.passes.add_table_rows import add_table_rows
from refluid.passes.rewrite import Report, Rule, apply
from refluid.passes.time_steps import STARTS, batch_time_steps

Options = Mapping[str, Any]
# An option beside those of BuildStrategy: only what is asked for, as for a profile.
AS_WRITTEN = "as_written"


@dataclass(frozen=True)
class Pass:
    """A named pass, and whether a strategy's options ask for it.

    run: rewrites a program in place, of which the named variables must stay computed. starts:
    types of operators without which it has nothing to do.
    """

    name: str
    run: Callable[[Program, frozenset[str]], Report]
    starts: frozenset[str]
    enabled_when: Callable[[Options], bool]


def _of_rules(name: str, rules: Sequence[Rule], enabled_when: Callable[[Options], bool]) -> Pass:
    starts = frozenset[str]().union(*(rule.starts for rule in rules))
    return Pass(name, partial(apply, rules), starts, enabled_when)


def _asked_by(option: str) -> Callable[[Options], bool]:
    return lambda options: bool(options.get(option))


def _always(options: Options) -> bool:
    return not options.get(AS_WRITTEN)


PASSES: tuple[Pass, ...] = (
    Pass("batch_time_steps", batch_time_steps, STARTS, _always),
    Pass("add_table_rows", add_table_rows, TABLE_GRADIENTS, _always),
    _of_rules(
        "fuse_relu_depthwise_conv",
        fuse_relu_depthwise_conv.RULES,
        _asked_by("fuse_relu_depthwise_conv"),
    ),
    _of_rules("fuse_bn_add_act_ops", fuse_bn_add_act.RULES, _asked_by("fuse_bn_add_act_ops")),
    _of_rules("fuse_bn_act_ops", fuse_bn_act.RULES, _asked_by("fuse_bn_act_ops")),
    _of_rules("fuse_gemm_epilogue", fuse_gemm_epilogue.RULES, _asked_by("fuse_gemm_epilogue")),
    _of_rules(
        "fuse_elewise_add_act_ops",
        fuse_elewise_add_act.RULES,
        _asked_by("fuse_elewise_add_act_ops"),
    ),
    _of_rules(
        "fuse_softmax_cross_entropy",
        fuse_softmax_cross_entropy.RULES,
        _asked_by("enable_auto_fusion"),
    ),
    _of_rules("fuse_conv_bias", fuse_conv_bias.RULES, _always),
    _of_rules("fuse_gemm_bias", fuse_gemm_epilogue.BIAS, _always),
)
BY_NAME = {one.name: one for one in PASSES}


@dataclass(frozen=True)
class Optimized:
    """A rewritten program (the given one where nothing was done), and a report of each pass."""

    program: Program
    reports: Mapping[str, Report]

    @property
    def subgraphs(self) -> int:
        """How many operators were made of several."""
        return sum(len(report.made) for report in self.reports.values())


def optimize(program: Program, options: Options, kept: Iterable[str] = ()) -> Optimized:
    """The program after all passes that the options ask for. `kept` names stay computed."""
    return run_passes(program, [one for one in PASSES if one.enabled_when(options)], kept)


def run_passes(program: Program, passes: Sequence[Pass], kept: Iterable[str] = ()) -> Optimized:
    """A copy of the program after these passes, in their order."""
    types = {op.type for block in program.blocks for op in block.ops}
    useful = [one for one in passes if one.starts & types]
    if not useful:
        return Optimized(program, {})
    copy, names = program.clone(), frozenset(kept)
    reports = {one.name: one.run(copy, names) for one in useful}
    if not any(report.made for report in reports.values()):
        return Optimized(program, reports)
    return Optimized(copy, reports)
