"""The passes that a strategy asks for, applied to a program, with what Fluid says about them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.engine.knobs import Knob
from refluid.engine.strategy import BUILD, ReduceStrategy, Strategy
from refluid.engine.subgraphs import write_unconnected
from refluid.ir.dot import print_dot
from refluid.ir.program import Program
from refluid.passes.pipeline import AS_WRITTEN, optimize
from refluid.runtime.kernels import without_choice

_log = logging.getLogger("refluid")
_OPTIMIZERS = ("adam", "sgd", "momentum")


def fuse_always(program: Program, kept: Iterable[str]) -> Program:
    """The program after those passes that every program gets. `kept` names stay computed."""
    return optimize(program, {}, kept).program


def fuse(
    program: Program,
    strategy: Strategy,
    kept: Iterable[str],
    *,
    first: bool,
    as_written: bool = False,
) -> Program:
    """The program after the passes that the strategy asks for.

    first: it is the first time for this program, so the log says what was done, and graphs are
    written where `debug_graphviz_path` says. as_written: nothing that wasn't asked for, so that a
    profile shows the operators that the user wrote.
    """
    found = optimize(program, asdict(strategy) | {AS_WRITTEN: as_written}, kept)
    if first:
        for line in (*_unused(strategy), *_said(program, strategy, found.subgraphs)):
            _log.warning(line)
        if strategy.debug_graphviz_path:
            draw(program, strategy, "original")
            draw(found.program, strategy, "fused")
        if flags.value("print_sub_graph_dir"):
            write_unconnected(program.global_block(), flags.value("print_sub_graph_dir"))
    return found.program


def draw(program: Program, strategy: Strategy, stage: str) -> None:
    """Writes the program's graph to the file `P_<stage>_graph`, P being `debug_graphviz_path`."""
    path = Path(f"{strategy.debug_graphviz_path}_{stage}_graph")
    path.write_text(print_dot(program, stage), encoding="utf-8")


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


def _said(program: Program, strategy: Strategy, subgraphs: int) -> Iterator[str]:
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
