"""What is said, and drawn, of a program when it is rewritten for the first time, as Fluid does."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.writing import write_whole
from refluid.engine.knobs import Knob
from refluid.engine.pipeline import Rewritten
from refluid.engine.setting import Setting
from refluid.engine.strategy import BUILD, ReduceStrategy, Strategy
from refluid.engine.subgraphs import write_unconnected
from refluid.ir.dot import print_dot
from refluid.ir.program import Program
from refluid.passes.data_parallel import Exchange
from refluid.runtime.kernels import without_choice

_log = logging.getLogger("refluid")
_OPTIMIZERS = ("adam", "sgd", "momentum")


def announce(program: Program, setting: Setting, done: Rewritten) -> None:
    """Says what was done to a program."""
    strategy = setting.strategy
    exchange = done.reports.get("sharding" if setting.stage else "data_parallel")
    warn(_unused(strategy), _fused(program, strategy, done.subgraphs))
    if strategy.reduce_strategy == ReduceStrategy.Reduce and setting.replicas == 1:
        _log.warning(
            "If you set build_strategy.reduce with 'Reduce',the number of places should be "
            "greater than 1."
        )
    if isinstance(exchange, Exchange):
        warn(_exchanged(setting, exchange))
    if flags.value("print_sub_graph_dir"):
        write_unconnected(program.global_block(), flags.value("print_sub_graph_dir"))


def drawing(strategy: Strategy) -> Callable[[str, Program], None]:
    """Writes the graph of a stage to the file `P_<stage>_graph`, P being `debug_graphviz_path`."""

    def draw(stage: str, program: Program) -> None:
        path = Path(f"{strategy.debug_graphviz_path}_{stage}_graph")
        write_whole(path, print_dot(program, stage))

    return draw if strategy.debug_graphviz_path else lambda _stage, _program: None


def warn(*lines: Iterable[str]) -> None:
    """Puts the lines into the log."""
    for line in chain(*lines):
        _log.warning(line)


def ignored(strategy: Strategy, knobs: Iterable[Knob]) -> Iterator[str]:
    """What to say of the options that were changed and have no effect."""
    for knob in knobs:
        if knob.ignored and getattr(strategy, knob.name) != knob.default:
            yield f"{knob.scope.value}.{knob.name} has no effect here: {knob.ignored}."


def _unused(strategy: Strategy) -> Iterator[str]:
    yield from ignored(strategy, BUILD.values())
    fixed = without_choice(strategy.mkldnn_enabled_op_types)
    if fixed:
        yield f"BuildStrategy.mkldnn_enabled_op_types: no choice of kernels for {', '.join(fixed)}."


def _fused(program: Program, strategy: Strategy, subgraphs: int) -> Iterator[str]:
    if subgraphs and any(name.startswith("fuse_") for name in _changed(strategy)):
        yield f"---  detected {subgraphs} subgraphs"
    if strategy.async_mode and strategy.fuse_all_reduce_ops:
        yield "Currently, fuse_all_reduce_ops doesn't work under async mode."
    if not strategy.fuse_all_optimizer_ops:
        return
    if strategy.reduce_strategy == ReduceStrategy.Reduce:
        yield "Currently, fuse_all_optimizer_ops only works under AllReduce mode."
        return
    for kind in _OPTIMIZERS:
        total, dense = _updates(program, kind)
        if total:
            yield (
                f"Find {kind} operators : {total}, and {dense} for dense gradients. To make the "
                "speed faster, those optimization are fused during training."
            )


def _changed(strategy: Strategy) -> Iterator[str]:
    return (name for name, knob in BUILD.items() if getattr(strategy, name) != knob.default)


def _updates(program: Program, kind: str) -> tuple[int, int]:
    """How many operators of that type there are, and for how many the gradient is dense."""
    counts: Counter[bool] = Counter()
    for block in program.blocks:
        for op in block.ops:
            if op.type == kind:
                grad = block.find_var_recursive(op.input("Grad")[0])
                counts[grad is None or grad.type != VarType.SELECTED_ROWS] += 1
    return counts.total(), counts[True]


def _exchanged(setting: Setting, found: Exchange) -> Iterator[str]:
    strategy = setting.strategy
    if strategy.fuse_all_reduce_ops and found.exchanges < found.gradients:
        yield (
            f"Find all_reduce operators: {found.gradients}. To make the speed faster, some "
            "all_reduce ops are fused during training, after fusion, the number of all_reduce ops "
            f"is {found.exchanges}."
        )
    if not strategy.fuse_broadcast_ops and not (setting.reduces and not setting.shares):
        yield (
            "Currently, fuse_broadcast_ops only works under Reduce mode. Replicas on the CPU share "
            "their parameters then, and broadcast nothing."
        )
