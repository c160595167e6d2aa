"""Convolutions and pools of volumes, and pools that tell where their maxima were."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.bounded import Volumes
from refluid.ops.extras import POOL3D, TRANSPOSED, VOLUME
from refluid.ops.infer import infer_by_probing
from refluid.ops.nn import windows as padding
from refluid.ops.nn.pool_windows import max_windows, mean_windows, whole_max
from refluid.ops.nn.transposed import conv_transpose
from refluid.ops.registry import OperatorDef, gradient, operator

_LAST = "NDHWC"
_ABSENT = {"is_test", "fuse_relu", "fuse_activation", "fuse_alpha", "fuse_beta"}
_TRANSPOSED = {name: value for name, value in TRANSPOSED.items() if name not in _ABSENT}


def _channels_first(value: Tensor, data_format: str) -> Tensor:
    return value.movedim(-1, 1) if data_format == _LAST else value


def _as_given(value: Tensor, data_format: str) -> Tensor:
    return value.movedim(1, -1) if data_format == _LAST else value


@operator(
    "conv3d",
    gradient_lod="none",
    outputs="Output",
    uses="Input Filter ResidualData",
    amp="fast",
    extra=VOLUME,
    differentiable="Input Filter",
    infer=padding.infer_convolved,
)
def conv3d(
    Input: Volumes,
    Filter: Volumes,
    ResidualData: Tensor | None = None,
    *,
    strides: Sequence[int] = (1, 1, 1),
    paddings: Sequence[int] = (0, 0, 0),
    padding_algorithm: str = "EXPLICIT",
    groups: int = 1,
    dilations: Sequence[int] = (1, 1, 1),
    data_format: str = "NCDHW",
) -> Tensor:
    """Three-dimensional convolution of Input (N, C, D, H, W) with Filter (M, C / groups, ...)."""
    x = _channels_first(Input, data_format)
    steps = [1, 1, 1] if padding_algorithm == "SAME" else list(dilations)
    extent = [(k - 1) * d + 1 for k, d in zip(Filter.shape[2:], steps, strict=True)]
    pads = padding.resolve(paddings, padding_algorithm, x.shape[2:], extent, strides)
    pads = padding.stretch(pads, x.shape[2:], extent, strides)
    same = padding.symmetric(pads)
    if same is None:
        x, same = F.pad(x, padding.flat(pads)), [0, 0, 0]
    return _as_given(F.conv3d(x, Filter, None, tuple(strides), same, steps, groups), data_format)


@operator(
    "conv3d_transpose",
    gradient_lod="none",
    outputs="Output",
    uses="Input Filter",
    amp="fast",
    extra=_TRANSPOSED,
    lod="",
)
def conv3d_transpose(
    Input: Volumes,
    Filter: Volumes,
    *,
    output_size: Sequence[int] = (),
    dilations: Sequence[int] = (1, 1, 1),
    strides: Sequence[int] = (1, 1, 1),
    paddings: Sequence[int] = (0, 0, 0),
    groups: int = 1,
    data_format: str = "NCHW",
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """Transposed convolution of volumes; see `conv2d_transpose`."""
    return conv_transpose(
        Input,
        Filter,
        None,
        output_size=output_size,
        groups=groups,
        dilations=dilations,
        strides=strides,
        paddings=paddings,
        data_format=data_format,
        padding_algorithm=padding_algorithm,
    )


@operator("pool3d", gradient_lod="none", outputs="Out", extra=POOL3D)
def pool3d(
    X: Volumes,
    *,
    pooling_type: str,
    ksize: Sequence[int],
    global_pooling: bool = False,
    strides: Sequence[int] = (1, 1, 1),
    paddings: Sequence[int] = (0, 0, 0),
    exclusive: bool = True,
    adaptive: bool = False,
    ceil_mode: bool = False,
    data_format: str = "NCDHW",
    padding_algorithm: str = "EXPLICIT",
) -> Tensor:
    """The maximum (`max`) or mean (`avg`) of each window of volumes; see `pool2d`."""
    x, largest = _channels_first(X, data_format), pooling_type == "max"
    if global_pooling:
        out = whole_max(x) if largest else x.mean((2, 3, 4), True)
    elif adaptive:
        size = (ksize[0], ksize[1], ksize[2])
        out = F.adaptive_max_pool3d(x, size) if largest else F.adaptive_avg_pool3d(x, size)
    else:
        pads = padding.resolve(paddings, padding_algorithm, x.shape[2:], ksize, strides)
        if largest:
            out = max_windows(x, ksize, strides, pads, ceil_mode)
        else:
            out = mean_windows(x, ksize, strides, pads, ceil_mode, exclusive)
    return _as_given(out, data_format)


def _infer_with_index(definition: OperatorDef, op: Operator) -> None:
    """Fluid declares the places, which are int32, with the type of the elements."""
    infer_by_probing(definition, op)
    for name, origin in zip(op.output("Mask"), op.input("X"), strict=False):
        mask = op.block.var_recursive(name)
        mask.describe(shape=mask.shape, dtype=op.block.var_recursive(origin).dtype)


def _define_with_index(name: str, rank: int) -> None:
    ones, zeros = (1,) * rank, (0,) * rank
    pool = F.max_pool2d if rank == 2 else F.max_pool3d
    adapt = F.adaptive_max_pool2d if rank == 2 else F.adaptive_max_pool3d

    def forward(
        X: Tensor,
        *,
        ksize: Sequence[int],
        global_pooling: bool = False,
        adaptive: bool = False,
        strides: Sequence[int] = ones,
        paddings: Sequence[int] = zeros,
    ) -> tuple[Tensor, Tensor]:
        if X.dim() != rank + 2 or not len(ksize) == len(strides) == rank:
            raise EnforceNotMet(
                f"X has to have {rank + 2} dimensions, ksize and strides {rank} numbers, but they "
                f"are {list(X.shape)}, {list(ksize)} and {list(strides)}"
            )
        size = tuple(X.shape[2:]) if global_pooling else tuple(ksize)
        if adaptive:
            out, places = adapt(X, size, return_indices=True)
        else:
            pads = zeros if global_pooling else tuple(paddings)
            out, places = pool(X, size, tuple(strides), pads, return_indices=True)
        return out, places.int()

    def backward(X: Tensor, Mask: Tensor, d_Out: Tensor) -> Tensor:
        flat = X.new_zeros((*X.shape[:2], math.prod(X.shape[2:])))
        flat.scatter_add_(2, Mask.flatten(2).long(), d_Out.flatten(2))
        return flat.reshape(X.shape)

    forward.__name__, backward.__name__ = name, f"{name}_grad"
    forward.__doc__ = "Largest elements of the windows, and their int32 places in the channel."
    backward.__doc__ = "d_Out added up at the places of the largest elements."
    operator(
        name,
        outputs="Out Mask",
        uses="X Mask",
        lod="",
        gradient_lod="none",
        infer=_infer_with_index,
    )(forward)
    gradient(name)(backward)


_define_with_index("max_pool2d_with_index", 2)
_define_with_index("max_pool3d_with_index", 3)
