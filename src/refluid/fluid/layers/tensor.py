"""Creating, copying and joining tensors."""

from refluid.fluid.layers.arrays import (
    tensor_array_to_tensor,
)
from refluid.fluid.layers.assignment import (
    assign,
    cast,
    sums,
)
from refluid.fluid.layers.creation import (
    arange,
    create_global_var,
    create_parameter,
    create_tensor,
    diag,
    eye,
    fill_constant,
    fill_constant_batch_size_like,
    full,
    full_like,
    linspace,
    ones,
    ones_like,
    range,
    zeros,
    zeros_like,
)
from refluid.fluid.layers.elementwise import (
    has_inf,
    has_nan,
    isfinite,
)
from refluid.fluid.layers.joining import (
    concat,
)
from refluid.fluid.layers.matrices import kron, trace, tril, triu
from refluid.fluid.layers.selection import (
    argmax,
    argmin,
    argsort,
)
from refluid.fluid.layers.slicing import (
    reverse,
)

__all__ = [
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "assign",
    "cast",
    "concat",
    "create_global_var",
    "create_parameter",
    "create_tensor",
    "diag",
    "eye",
    "fill_constant",
    "fill_constant_batch_size_like",
    "full",
    "full_like",
    "has_inf",
    "has_nan",
    "isfinite",
    "kron",
    "linspace",
    "ones",
    "ones_like",
    "range",
    "reverse",
    "sums",
    "tensor_array_to_tensor",
    "trace",
    "tril",
    "triu",
    "zeros",
    "zeros_like",
]
