"""Control flow: loops, branches, arrays, recurrent networks, comparisons and counters.

`__all__` names what is offered as `fluid.layers.X`, as in Fluid; the rest is had from here.
"""

from refluid.fluid.functions.control.arrays import (
    array_length,
    array_read,
    array_write,
    create_array,
)
from refluid.fluid.functions.control.branching import case, cond, switch_case
from refluid.fluid.functions.control.branching import select_input as select_input
from refluid.fluid.functions.control.branching import select_output as select_output
from refluid.fluid.functions.control.conditional import BlockGuard as BlockGuard
from refluid.fluid.functions.control.conditional import ConditionalBlock as ConditionalBlock
from refluid.fluid.functions.control.dynamic_rnn import DynamicRNN
from refluid.fluid.functions.control.ifelse import IfElse
from refluid.fluid.functions.control.ranks import array_to_lod_tensor as array_to_lod_tensor
from refluid.fluid.functions.control.ranks import lod_rank_table as lod_rank_table
from refluid.fluid.functions.control.ranks import lod_tensor_to_array as lod_tensor_to_array
from refluid.fluid.functions.control.ranks import max_sequence_len as max_sequence_len
from refluid.fluid.functions.control.ranks import merge_lod_tensor as merge_lod_tensor
from refluid.fluid.functions.control.ranks import reorder_lod_tensor_by_rank
from refluid.fluid.functions.control.ranks import shrink_memory as shrink_memory
from refluid.fluid.functions.control.ranks import split_lod_tensor as split_lod_tensor
from refluid.fluid.functions.control.static_rnn import StaticRNN
from refluid.fluid.functions.control.static_rnn import StaticRNNMemoryLink as StaticRNNMemoryLink
from refluid.fluid.functions.control.switch import Switch
from refluid.fluid.functions.control.while_loop import While, while_loop
from refluid.fluid.functions.io.printing import Print
from refluid.fluid.functions.math.comparison import (
    equal,
    greater_equal,
    greater_than,
    less_equal,
    less_than,
    not_equal,
)
from refluid.fluid.functions.tensor.counting import increment
from refluid.fluid.functions.tensor.shaping import is_empty

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
