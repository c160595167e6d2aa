"""`fluid.transpiler.details`: what transpilers are made of."""

from refluid.fluid.transpiler.details.checkport import wait_server_ready
from refluid.fluid.transpiler.details.program_utils import (
    block_to_code,
    delete_ops,
    find_op_by_input_arg,
    find_op_by_output_arg,
    get_indent_space,
    op_to_code,
    program_to_code,
    variable_to_code,
)
from refluid.fluid.transpiler.details.ufind import UnionFind

__all__ = [
    "UnionFind",
    "block_to_code",
    "delete_ops",
    "find_op_by_input_arg",
    "find_op_by_output_arg",
    "get_indent_space",
    "op_to_code",
    "program_to_code",
    "variable_to_code",
    "wait_server_ready",
]
