"""`paddle.complex`: functions of Fluid 1.8 on `ComplexVariable`."""

from refluid.paddle.complex import helper, tensor
from refluid.paddle.complex.tensor import *  # noqa: F403

_MODULES = helper, tensor
__all__ = [*tensor.__all__]
