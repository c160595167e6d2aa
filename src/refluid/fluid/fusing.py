"""The passes that a strategy asks for, applied to a program, with what Fluid says about them."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.fluid.strategies import BuildStrategy, ExecutionStrategy, ReduceStrategy
from refluid.fluid.subgraphs import write_unconnected
from refluid.ir.dot import print_dot
from refluid.ir.program import Program
from refluid.passes.pipeline import AS_WRITTEN, optimize
from refluid.runtime.kernels import without_choice

_log = logging.getLogger("refluid")
_OPTIMIZERS = ("adam", "sgd", "momentum")

# Options that change nothing here, and why.
WITHOUT_EFFECT: dict[str, str] = {
    "async_mode": "the replicas of one process always work in step",
    "cache_runtime_context": "plans keep what their operators need between runs anyhow",
    "hierarchical_allreduce_inter_nranks": "the replicas are in one process",
    "is_distribution": "the replicas are in one process",
    "nccl_comm_num": "the replicas are in one process, which has one way to exchange gradients",
    "num_trainers": "the replicas are in one process",
    "remove_unnecessary_lock": "plans have no locks",
    "trainer_id": "the replicas are in one process",
    "trainers_endpoints": "the replicas are in one process",
    "use_hierarchical_allreduce": "the replicas are in one process",
}

EXECUTION_WITHOUT_EFFECT: dict[str, str] = {
    "allow_op_delay": "operators run as soon as what they need is there",
    "use_cuda": "the places say where a program runs",
    "use_experimental_executor": "there is one way to run a plan",
    "use_thread_barrier": "a run ends when all its replicas have ended",
}


def fuse_always(program: Program, kept: Iterable[str]) -> Program:
    """The program after those passes that every program gets. `kept` names stay computed."""
    return optimize(program, {}, kept).program


def fuse(
    program: Program,
    build: BuildStrategy,
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
    found = optimize(program, build._options() | {AS_WRITTEN: as_written}, kept)
    if first:
        for line in (*_unused(build), *_said(program, build, found.subgraphs)):
            _log.warning(line)
        if build.debug_graphviz_path:
            draw(program, build, "original")
            draw(found.program, build, "fused")
        if flags.value("print_sub_graph_dir"):
            write_unconnected(program.global_block(), flags.value("print_sub_graph_dir"))
    return found.program


def draw(program: Program, build: BuildStrategy, stage: str) -> None:
    """Writes the program's graph to the file `P_<stage>_graph`, P being `debug_graphviz_path`."""
    path = Path(f"{build.debug_graphviz_path}_{stage}_graph")
    path.write_text(print_dot(program, stage), encoding="utf-8")


def _unused(build: BuildStrategy) -> Iterator[str]:
    for name in build._changed():
        if name in WITHOUT_EFFECT:
            yield f"BuildStrategy.{name} has no effect here: {WITHOUT_EFFECT[name]}."

    fixed = without_choice(build.mkldnn_enabled_op_types)
    if fixed:
        yield f"BuildStrategy.mkldnn_enabled_op_types: no choice of kernels for {', '.join(fixed)}."


def ignored(execution: ExecutionStrategy) -> Iterator[str]:
    """What to say of the options that were changed and have no effect."""
    for name in execution._changed():
        if name in EXECUTION_WITHOUT_EFFECT:
            reason = EXECUTION_WITHOUT_EFFECT[name]
            yield f"ExecutionStrategy.{name} has no effect here: {reason}."


def _said(program: Program, build: BuildStrategy, subgraphs: int) -> Iterator[str]:
    if subgraphs and any(name.startswith("fuse_") for name in build._changed()):
        yield f"---  detected {subgraphs} subgraphs"
    if build.async_mode and build.fuse_all_reduce_ops:
        yield "Currently, fuse_all_reduce_ops doesn't work under async mode."
    if not build.fuse_all_optimizer_ops:
        return
    if build.reduce_strategy == ReduceStrategy.Reduce:
        yield "Currently, fuse_all_optimizer_ops only works under AllReduce mode."
        return
    for kind in _OPTIMIZERS:
        total, dense = _updates(program, kind)
        if total:
            yield (
                f"Find {kind} operators : {total}, and {dense} for dense gradients. To make the "
                "speed faster, those optimization are fused during training."
            )


def _updates(program: Program, kind: str) -> tuple[int, int]:
    """How many operators of that type there are, and for how many the gradient is dense."""
    counts: Counter[bool] = Counter()
    for block in program.blocks:
        for op in block.ops:
            if op.type == kind:
                grad = block.find_var_recursive(op.input("Grad")[0])
                counts[grad is None or grad.type != VarType.SELECTED_ROWS] += 1
    return counts.total(), counts[True]
