"""What functions on complex numbers ask of what they are given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from refluid.ir.complex_variable import ComplexVariable
from refluid.ir.variable import Variable


def is_complex(x: Any) -> bool:
    """Whether it is a `ComplexVariable`."""
    return isinstance(x, ComplexVariable)


def is_real(x: Any) -> bool:
    """Whether it is another variable."""
    return isinstance(x, Variable)


def complex_variable_exists(inputs: Iterable[Any], layer_name: str) -> None:
    """TypeError where none of the inputs is a `ComplexVariable`."""
    if not any(map(is_complex, inputs)):
        raise TypeError(
            f"At least one of inputs of layer '{layer_name}' should be ComplexVariable; "
            "fluid.layers has it for real variables"
        )
