"""Creating, copying and joining tensors."""

from refluid.fluid.functions.control.arrays import (
    tensor_array_to_tensor,
)
from refluid.fluid.functions.math.elementwise import (
    has_inf,
    has_nan,
    isfinite,
)
from refluid.fluid.functions.math.matrices import kron, trace, tril, triu
from refluid.fluid.functions.math.ordering import (
    argmax,
    argmin,
    argsort,
)
from refluid.fluid.functions.math.reduction import sums
from refluid.fluid.functions.tensor.assignment import assign, cast
from refluid.fluid.functions.tensor.creation import (
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
from refluid.fluid.functions.tensor.joining import (
    concat,
)
from refluid.fluid.functions.tensor.slicing import (
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
