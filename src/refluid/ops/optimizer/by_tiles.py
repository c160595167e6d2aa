"""Updates of large weights part by part, each with its part of the product that is their gradient.

A gradient as large as the weights is written to memory and read again, and so are the weights for
the gradient of what they were multiplied with. Tile by tile all of that stays in the cache: the
weights and what the optimizer keeps for them are read and written once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from refluid.kernels.epilogues import deactivate
from refluid.kernels.products import of_parts, product
from refluid.ops.optimizer.adam import BETA2, KEPT, corrected, multiply
from refluid.ops.optimizer.fused import adam_step, descend, groups_by_rate
from refluid.ops.registry import operator

# Numbers of a tile, and its rows at least. With more rows of X the products aren't bound by memory.
_TILE, _LEAST, _MOST = 2**19, 64, 256

InputGradients = tuple[Tensor | None, Tensor | None]
# Moves a part of the weights on, by its gradient, and of what the optimizer keeps for it.
TileStep = Callable[[Tensor, Tensor, list[Tensor]], None]


def _update(
    x: Tensor,
    weights: Tensor,
    grad: Tensor,
    states: tuple[Tensor, ...],
    step: TileStep,
    needs_x: bool,
    inverse: Tensor | None,
) -> Tensor | None:
    """Updates the weights of x · weights by the product's gradient; gives that of x.

    x (m, k), weights and states (k, n), grad (m, n). inverse: how many times that gradient, of a
    half type's x and grad; then there is none of x.
    """
    if len(x) > _MOST:
        d_x = product(grad, weights.t()) if needs_x else None
        step(weights, _slopes(grad, len(weights), 1, inverse)(x), [*states])
        return d_x
    size = max(_LEAST, _TILE // weights.shape[1])
    d_x = torch.empty_like(x) if needs_x else None
    slopes = _slopes(grad, size, len(weights) // size, inverse)
    for begin in range(0, len(weights), size):
        part = slice(begin, begin + size)
        tile = weights[part]
        if d_x is not None:
            d_x[:, part] = product(grad, tile.t())
        step(tile, slopes(x[:, part]), [one[part] for one in states])
    return d_x


def _slopes(
    grad: Tensor, size: int, times: int, inverse: Tensor | None
) -> Callable[[Tensor], Tensor]:
    """The gradient of some of the weights' rows, by the columns of x that they were multiplied
    with; so many times of so many rows."""
    if inverse is None:
        multiply = of_parts(grad, size, times)
        return lambda x: multiply(x.t())
    from refluid.kernels.mixed_products import mixed_gradient  # few programs have such

    return lambda x: mixed_gradient(x, grad).mul_(inverse)


def _factors(
    X: Tensor, Out: Tensor | None, d_Out: Tensor, x_num_col_dims: int, activation: str
) -> tuple[Tensor, Tensor]:
    """The matrices x and grad of which xᵀ · grad is the gradient of the weights."""
    x = X if X.dim() == 2 else X.reshape(math.prod(X.shape[:x_num_col_dims]), -1)
    grad = deactivate(Out, d_Out, activation)
    return x, grad if grad.dim() == 2 else grad.reshape(len(x), -1)


def _updated(
    X: Tensor,
    weights: Tensor,
    Out: Tensor | None,
    d_Out: Tensor,
    states: tuple[Tensor, ...],
    step: TileStep,
    x_num_col_dims: int,
    activation: str,
    needs: Sequence[int],
    inverse: Tensor | None,
) -> InputGradients:
    """Updates the weights of activation(X · weights + bias); gives gradients of X and the bias."""
    x, grad = _factors(X, Out, d_Out, x_num_col_dims, activation)
    d_x = _update(x, weights, grad, states, step, bool(needs[0]), inverse)
    return d_x if d_x is None else d_x.view(X.shape), grad.sum(0) if needs[1] else None


@operator(
    "check_product",
    outputs="FoundInfiniteOut Inverse",
    uses=None,
    lod="",
    mutates={"FoundInfiniteOut": "FoundInfinite"},
)
def check_product(
    X: Tensor,
    d_Out: Tensor,
    FoundInfinite: Tensor,
    Scale: Tensor,
    Out: Tensor | None = None,
    *,
    x_num_col_dims: int = 1,
    activation: str = "",
) -> tuple[Tensor, Tensor]:
    """Whether the gradient of the weights of `mixed_gemm` has an inf or nan, added to
    FoundInfinite, bool [1], in place; and 1 / Scale."""
    from refluid.kernels.mixed_products import has_infinite  # few programs have such

    factors = _factors(X, Out, d_Out, x_num_col_dims, activation)
    return FoundInfinite.logical_or_(has_infinite(*factors)), Scale.reciprocal()


@operator(
    "sgd_by_tiles",
    outputs="DX? DBias? ParamOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param"},
)
def sgd_by_tiles(
    X: Tensor,
    Param: Tensor,
    d_Out: Tensor,
    LearningRate: Tensor,
    Out: Tensor | None = None,
    Inverse: Tensor | None = None,
    *,
    x_num_col_dims: int = 1,
    activation: str = "",
    needs: Sequence[int] = (1, 1),
    l2_decay: float = 0.0,
) -> tuple[Tensor | None, Tensor | None, Tensor]:
    """`sgd` of the weights of `fused_gemm_epilogue`, with its gradients of X and Bias.

    needs: which of these two are wanted. Inverse, float32 [1]: of the weights of `mixed_gemm`, by
    so many times their gradient.
    """
    ((rate, _),) = groups_by_rate([LearningRate])

    def step(part: Tensor, slopes: Tensor, _states: list[Tensor]) -> None:
        descend([part], [slopes], [], rate, 0.0, False, l2_decay)

    found = _updated(X, Param, Out, d_Out, (), step, x_num_col_dims, activation, needs, Inverse)
    return *found, Param


@operator(
    "momentum_by_tiles",
    outputs="DX? DBias? ParamOut VelocityOut",
    uses=None,
    lod="",
    mutates={"ParamOut": "Param", "VelocityOut": "Velocity"},
)
def momentum_by_tiles(
    X: Tensor,
    Param: Tensor,
    d_Out: Tensor,
    Velocity: Tensor,
    LearningRate: Tensor,
    Out: Tensor | None = None,
    Inverse: Tensor | None = None,
    *,
    mu: float,
    x_num_col_dims: int = 1,
    activation: str = "",
    needs: Sequence[int] = (1, 1),
    use_nesterov: bool = False,
    l2_decay: float = 0.0,
) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor]:
    """`momentum` of the weights of `fused_gemm_epilogue`; otherwise as `sgd_by_tiles`."""
    ((rate, _),) = groups_by_rate([LearningRate])

    def step(part: Tensor, slopes: Tensor, velocity: list[Tensor]) -> None:
        descend([part], [slopes], velocity, rate, mu, use_nesterov, l2_decay)

    states = (Velocity,)
    found = _updated(X, Param, Out, d_Out, states, step, x_num_col_dims, activation, needs, Inverse)
    return *found, Param, Velocity


@operator(
    "adam_by_tiles",
    outputs=f"DX? DBias? {' '.join(f'{slot}Out' for slot in KEPT)}",
    uses=None,
    lod="",
    mutates={f"{slot}Out": slot for slot in KEPT},
)
def adam_by_tiles(
    X: Tensor,
    Param: Tensor,
    d_Out: Tensor,
    LearningRate: Tensor,
    Moment1: Tensor,
    Moment2: Tensor,
    Beta1Pow: Tensor,
    Beta2Pow: Tensor,
    Out: Tensor | None = None,
    Inverse: Tensor | None = None,
    *,
    x_num_col_dims: int = 1,
    activation: str = "",
    needs: Sequence[int] = (1, 1),
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    l2_decay: float = 0.0,
) -> tuple[Tensor | None, Tensor | None, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """`adam` of the weights of `fused_gemm_epilogue`; otherwise as `sgd_by_tiles`."""
    betas, powers = (beta1, beta2), (Beta1Pow.item(), Beta2Pow.item())
    rate = corrected(LearningRate.item(), *powers)

    def step(part: Tensor, slopes: Tensor, moments: list[Tensor]) -> None:
        one, two = moments
        adam_step([part], [slopes], [one], [two], rate, betas, epsilon, l2_decay)

    states = Moment1, Moment2
    found = _updated(X, Param, Out, d_Out, states, step, x_num_col_dims, activation, needs, Inverse)
    multiply([Beta1Pow], [Beta2Pow], betas)
    return *found, Param, *states, Beta1Pow, Beta2Pow
