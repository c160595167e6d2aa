"""Complex numbers, which Paddle 2 has beside Fluid: made of real ones, taken apart, turned."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from refluid.ops.registry import operator


def _imag(X: Tensor) -> Tensor:
    return torch.view_as_real(X)[..., 1]


_TABLE: dict[str, tuple[Callable[[Tensor], Tensor], str]] = {
    "angle": (torch.angle, "The angle of each number in radians; of a real one 0 or pi."),
    "as_complex": (torch.view_as_complex, "Pairs of the last dimension as complex numbers."),
    "as_real": (torch.view_as_real, "Real and imaginary part, as a last dimension of 2."),
    "conj": (torch.conj_physical, "The conjugate of each number."),
    "magnitude": (torch.abs, "The size of each number, real."),
    "imag": (_imag, "Imaginary parts."),
    "real": (torch.real, "Real parts."),
    "sgn": (torch.sgn, "X / |X|, and 0 of 0."),
}


def _define(name: str, compute: Callable[[Tensor], Tensor], doc: str) -> None:
    def body(X: Tensor) -> Tensor:
        return compute(X).clone() if name.startswith(("as_", "real", "imag")) else compute(X)

    body.__name__, body.__doc__ = name, doc
    operator(name, outputs="Out", uses="X", amp="keep")(body)


for _name, (_compute, _doc) in _TABLE.items():
    _define(_name, _compute, _doc)


@operator("complex", outputs="Out", uses="X Y", amp="keep")
def complex(X: Tensor, Y: Tensor) -> Tensor:
    """X + iY of real X and Y, which broadcast."""
    return torch.complex(X, Y)
