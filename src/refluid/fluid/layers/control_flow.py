"""Control flow: comparisons, counters and blocks that run on a condition."""

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
from refluid.fluid.layers.printing import Print
from refluid.fluid.layers.switch import Switch

__all__ = [
    "BlockGuard",
    "ConditionalBlock",
    "Print",
    "Switch",
    "equal",
    "greater_equal",
    "greater_than",
    "increment",
    "is_empty",
    "less_equal",
    "less_than",
    "not_equal",
]
