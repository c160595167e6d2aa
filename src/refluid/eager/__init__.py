"""Operators that run at once, on torch's autograd: what `fluid.dygraph` is made of."""

from refluid.eager.backend import Eager
from refluid.eager.keys import KeptAttributes
from refluid.eager.mode import current, eager, enter, leave, train
from refluid.eager.parameter import ParamBase
from refluid.eager.tensor import VarBase
from refluid.eager.updates import Updates

__all__ = [
    "Eager",
    "KeptAttributes",
    "ParamBase",
    "Updates",
    "VarBase",
    "current",
    "eager",
    "enter",
    "leave",
    "train",
]
