"""Control flow: loops, branches, arrays, recurrent networks, comparisons and counters."""

from refluid.fluid.layers.arrays import array_length, array_read, array_write, create_array
from refluid.fluid.layers.branches import case, cond, select_input, select_output, switch_case
from refluid.fluid.layers.comparison import (
    equal,
    greater_equal,
    greater_than,
    is_empty,
    less_equal,
    less_than,
    not_equal,
)
from refluid.fluid.layers.conditional import BlockGuard, ConditionalBlock
from refluid.fluid.layers.counting import increment
from refluid.fluid.layers.dynamic_rnn import DynamicRNN
from refluid.fluid.layers.ifelse import IfElse
from refluid.fluid.layers.lod_ranks import (
    array_to_lod_tensor,
    lod_rank_table,
    lod_tensor_to_array,
    max_sequence_len,
    merge_lod_tensor,
    reorder_lod_tensor_by_rank,
    shrink_memory,
    split_lod_tensor,
)
from refluid.fluid.layers.loops import While, while_loop
from refluid.fluid.layers.printing import Print
from refluid.fluid.layers.static_rnn import StaticRNN, StaticRNNMemoryLink
from refluid.fluid.layers.switch import Switch

# Not offered as `fluid.layers.X`, as in Fluid, but from this module.
_MORE = (
    BlockGuard,
    ConditionalBlock,
    StaticRNNMemoryLink,
    array_to_lod_tensor,
    lod_rank_table,
    lod_tensor_to_array,
    max_sequence_len,
    merge_lod_tensor,
    select_input,
    select_output,
    shrink_memory,
    split_lod_tensor,
)

__all__ = [
    "DynamicRNN",
    "IfElse",
    "Print",
    "StaticRNN",
    "Switch",
    "While",
    "array_length",
    "array_read",
    "array_write",
    "case",
    "cond",
    "create_array",
    "equal",
    "greater_equal",
    "greater_than",
    "increment",
    "is_empty",
    "less_equal",
    "less_than",
    "not_equal",
    "reorder_lod_tensor_by_rank",
    "switch_case",
    "while_loop",
]
