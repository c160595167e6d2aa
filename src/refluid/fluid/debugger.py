"""Programs as text and as graphs, and runs that name what made the first NaN."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.core import flags
from refluid.core.scope import Scope
from refluid.core.writing import write_whole
from refluid.fluid.executor import Executor
from refluid.ir.attributes import OpRole
from refluid.ir.block import Block
from refluid.ir.defaults import default_main_program
from refluid.ir.dot import print_blocks
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ir.text import print_op

__all__ = [
    "draw_block_graphviz",
    "pprint_block_codes",
    "pprint_program_codes",
    "run_fast_nan_inf_debug",
]


def draw_block_graphviz(
    block: Block, highlights: Sequence[str] | None = None, path: str = "./temp.dot"
) -> None:
    """Writes the block's graph to a file, for Graphviz's `dot`.

    highlights: names of variables and types of operators that are drawn in red.
    """
    label = f"block {block.idx}"
    text = print_blocks({label: block}, label, highlights=set(highlights or ()))
    write_whole(path, text)


def pprint_program_codes(program_desc: Program) -> None:
    """Prints the operators of all blocks, a line each, without those of the backward pass."""
    for block in program_desc.blocks:
        pprint_block_codes(block)


def pprint_block_codes(block_desc: Block, show_backward: bool = False) -> None:
    """Prints the operators of a block, a line each. show_backward: gradient operators too."""
    print(f"block {block_desc.idx}:")
    for op in block_desc.ops:
        if show_backward or not _is_backward(op):
            print(f"  {print_op(op, brief=True)}")


def _is_backward(op: Operator) -> bool:
    return bool(op.role & OpRole.BACKWARD)


def run_fast_nan_inf_debug(
    executor: Executor,
    program: Program | None = None,
    feed: Mapping[str, Any] | None = None,
    fetch_list: Sequence[Any] | None = None,
    feed_var_name: str = "feed",
    fetch_var_name: str = "fetch",
    scope: Scope | None = None,
    return_numpy: bool = True,
    use_program_cache: bool = False,
    dump_core: bool = True,
) -> list[Any]:
    """`executor.run`, in which inf and nan are looked for at the end of the step.

    Raises EnforceNotMet naming the operator that made the first one. dump_core: changes nothing,
    for the error says what a core dump would be read for. Other arguments as of `Executor.run`.
    """
    with flags.override({"FLAGS_fast_check_nan_inf": True}):
        return executor.run(
            default_main_program() if program is None else program,
            feed=feed,
            fetch_list=fetch_list,
            feed_var_name=feed_var_name,
            fetch_var_name=fetch_var_name,
            scope=scope,
            return_numpy=return_numpy,
            use_program_cache=use_program_cache,
        )
