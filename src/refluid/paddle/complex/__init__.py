"""`paddle.complex`: functions of Fluid 1.8 on `ComplexVariable`; called, Paddle 2's function."""

import sys
from typing import Any

from refluid.core.stub_modules import StubModule, stub_names
from refluid.paddle.complex import helper, tensor
from refluid.paddle.complex.tensor import *  # noqa: F403

_MODULES = helper, tensor
__all__ = [*tensor.__all__]


class CallableModule(StubModule):
    """The module, and the function of its name."""

    def __call__(self, real: Any, imag: Any, name: str | None = None) -> Any:
        """real + i imag, which broadcast; both of float32 or of float64."""
        from refluid.paddle.tensor import complexes

        return complexes.complex(real, imag, name)


stub_names(sys.modules[__name__])
sys.modules[__name__].__class__ = CallableModule
