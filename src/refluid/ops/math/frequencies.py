"""Fourier transforms along dimensions, as Paddle 2 has them.

`sizes` are those of the transformed dimensions: inputs are cut or filled up with zeros to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from refluid.ops.registry import operator

_Transform = Callable[..., Tensor]


def _transformed(
    transforms: tuple[_Transform, _Transform],
    X: Tensor,
    axes: Sequence[int],
    sizes: Sequence[int],
    normalization: str,
    forward: bool,
) -> Tensor:
    made = transforms[not forward](X, [*sizes] or None, [*axes], normalization)
    return made.resolve_conj()


@operator("fft_c2c", outputs="Out", uses="X", amp="keep")
def fft_c2c(
    X: Tensor,
    *,
    axes: Sequence[int],
    sizes: Sequence[int] = (),
    normalization: str = "backward",
    forward: bool = True,
) -> Tensor:
    """The spectrum of complex numbers, complex; not forward: what has this spectrum."""
    pair = torch.fft.fftn, torch.fft.ifftn
    return _transformed(pair, X, axes, sizes, normalization, forward)


@operator("fft_r2c", outputs="Out", uses="X", amp="keep")
def fft_r2c(
    X: Tensor,
    *,
    axes: Sequence[int],
    sizes: Sequence[int] = (),
    normalization: str = "backward",
    forward: bool = True,
) -> Tensor:
    """The half of the spectrum of real numbers that tells all; not forward: its conjugate, scaled.

    The last of `axes` has n // 2 + 1 elements for n.
    """
    pair = torch.fft.rfftn, torch.fft.ihfftn
    return _transformed(pair, X, axes, sizes, normalization, forward)


@operator("fft_c2r", outputs="Out", uses="X", amp="keep")
def fft_c2r(
    X: Tensor,
    *,
    axes: Sequence[int],
    sizes: Sequence[int] = (),
    normalization: str = "backward",
    forward: bool = True,
) -> Tensor:
    """The spectrum, real, of what is the conjugate of itself backwards; not forward: its inverse.

    The last of `axes` has 2 * (n - 1) elements for n where `sizes` are none.
    """
    pair = torch.fft.hfftn, torch.fft.irfftn
    return _transformed(pair, X, axes, sizes, normalization, forward)
