"""Other shapes of the same elements: reshape, flatten, squeeze, unsqueeze.

The operators whose names end in 2 also make XShape, an empty tensor that carries the shape of X
(after a 0) to the gradient operator.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.lod_rules import keeps_rows
from refluid.ops.products import infer_flat
from refluid.ops.reading import integers, is_unknown, unknown
from refluid.ops.registry import gradient, operator

SAME = {"Out": "X"}


def _x_shape(X: Tensor) -> Tensor:
    return X.new_empty((0, *X.shape))


def _resolve(X: Tensor, shape: Sequence[int]) -> list[int]:
    """Sizes of a reshape: 0 stands for X's size at that place."""
    sizes = [X.shape[place] if size == 0 else size for place, size in enumerate(shape)]
    if -1 in sizes and 0 in sizes and not X.is_meta:
        raise EnforceNotMet(
            f"X {list(X.shape)} has no elements, so that what -1 stands for in shape {list(shape)} "
            "isn't known: leave out batches that have no rows"
        )
    return sizes


def _meta_reshape(X: Tensor, sizes: list[int]) -> Tensor:
    """A reshape where sizes may be unknown, so that the number of elements proves nothing."""
    if -1 in sizes:
        guess = any(map(is_unknown, X.shape))
        rest = unknown() if guess else X.numel() // max(-math.prod(sizes), 1)
        sizes = [rest if size == -1 else size for size in sizes]
    if math.prod(sizes) != X.numel() and not any(map(is_unknown, (*X.shape, *sizes))):
        raise EnforceNotMet(
            f"The 'shape' in ReshapeOp is invalid. The input tensor X's size must be equal to the "
            f"capacity of 'shape'. But received X's shape = {list(X.shape)}, 'shape' is {sizes}"
        )
    return X.new_empty(sizes)


def _reshape(
    X: Tensor, Shape: Tensor | None, several: list[Tensor] | None, shape: Sequence[int]
) -> Tensor:
    if X.is_meta and Shape is not None and not several and shape:
        return _meta_reshape(X, _resolve(X, shape))  # Fluid declares what the attribute says
    if Shape is not None or several:
        _require_int32(several or [Shape])
        shape = integers(shape, None if several else Shape, several)
    elif X.is_meta:
        return _meta_reshape(X, _resolve(X, shape))
    return X.new_empty(shape) if X.is_meta else X.reshape(_resolve(X, shape))


def _require_int32(sizes: Sequence[Tensor | None]) -> None:
    for one in sizes:
        if one is not None and not one.is_meta and one.dtype != torch.int32:
            raise EnforceNotMet(
                f"Tensor holds the wrong type, it holds {one.dtype}, but desires to be int: sizes "
                "in tensors have to be int32; cast them"
            )


@operator(
    "reshape",
    gradient_lod="none",
    outputs="Out",
    views=SAME,
    lod_by=keeps_rows,
    by_autograd="always",
)
def reshape(
    X: Tensor,
    Shape: Tensor | None = None,
    ShapeTensor: list[Tensor] | None = None,
    *,
    shape: Sequence[int] = (),
) -> Tensor:
    """X in another shape: a size 0 is X's own, one size may be -1 for what is left.

    A tensor Shape or a list of tensors ShapeTensor replaces the attribute.
    """
    return _reshape(X, Shape, ShapeTensor, shape)


@operator(
    "reshape2",
    outputs="Out XShape",
    uses="XShape",
    differentiable="X",
    views=SAME,
    extra={"use_quantizer": False},
    lod_by=keeps_rows,
    by_autograd="always",
)
def reshape2(
    X: Tensor,
    Shape: Tensor | None = None,
    ShapeTensor: list[Tensor] | None = None,
    *,
    shape: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """`reshape`, and XShape."""
    return _reshape(X, Shape, ShapeTensor, shape), _x_shape(X)


def _flatten(X: Tensor, axis: int) -> Tensor:
    if not 0 <= axis <= X.dim():
        raise EnforceNotMet(f"axis is {axis} but X, {list(X.shape)}, has {X.dim()} dimensions")
    return X.reshape(math.prod(X.shape[:axis]), math.prod(X.shape[axis:]))


@operator(
    "flatten",
    outputs="Out",
    uses="X",
    views=SAME,
    infer=infer_flat,
    lod_by=keeps_rows,
    by_autograd="always",
)
def flatten(X: Tensor, *, axis: int = 1) -> Tensor:
    """X as a matrix whose rows are its first `axis` dimensions."""
    return _flatten(X, axis)


@operator(
    "flatten2",
    outputs="Out XShape",
    uses="XShape",
    views=SAME,
    infer=infer_flat,
    lod_by=keeps_rows,
    by_autograd="always",
)
def flatten2(X: Tensor, *, axis: int = 1) -> tuple[Tensor, Tensor]:
    """`flatten`, and XShape."""
    return _flatten(X, axis), _x_shape(X)


def _squeeze(X: Tensor, axes: Sequence[int]) -> Tensor:
    if not axes:
        return X.squeeze()
    if any(not -X.dim() <= axis < X.dim() for axis in axes):
        raise EnforceNotMet(
            f"Each axis in Attr(axes) should be in the range of [{-X.dim()}, {X.dim() - 1}]. But "
            f"they are {list(axes)}, input tensor's shape = {list(X.shape)}"
        )
    gone = {axis % X.dim() for axis in axes}
    if X.is_meta:
        return X.new_empty([size for dim, size in enumerate(X.shape) if dim not in gone])
    for axis in gone:
        if X.shape[axis] != 1:
            raise EnforceNotMet(
                "The size of axis that will be squeezed should be equal to 1. But current axis = "
                f"{axis}, input tensor's shape = {list(X.shape)}"
            )
    return X.squeeze(tuple(gone))


@operator("squeeze", outputs="Out", uses="X", views=SAME, lod_by=keeps_rows, by_autograd="always")
def squeeze(X: Tensor, *, axes: Sequence[int] = ()) -> Tensor:
    """X without the dimensions `axes`, which have size 1; no axes: without all such."""
    return _squeeze(X, axes)


@operator(
    "squeeze2",
    outputs="Out XShape",
    uses="XShape",
    views=SAME,
    lod_by=keeps_rows,
    by_autograd="always",
)
def squeeze2(X: Tensor, *, axes: Sequence[int] = ()) -> tuple[Tensor, Tensor]:
    """`squeeze`, and XShape."""
    return _squeeze(X, axes), _x_shape(X)


def _unsqueeze(X: Tensor, axes: Sequence[int]) -> Tensor:
    for axis in axes:
        X = X.unsqueeze(axis)
    return X


@operator(
    "unsqueeze",
    outputs="Out",
    uses="X",
    differentiable="X",
    views=SAME,
    lod_by=keeps_rows,
    by_autograd="always",
)
def unsqueeze(
    X: Tensor,
    AxesTensor: Tensor | None = None,
    AxesTensorList: list[Tensor] | None = None,
    *,
    axes: Sequence[int] = (),
) -> Tensor:
    """X with dimensions of size 1 put in at `axes`, one after the other."""
    return _unsqueeze(X, integers(axes, AxesTensor, AxesTensorList))


@operator(
    "unsqueeze2",
    outputs="Out XShape",
    uses="XShape",
    differentiable="X",
    views=SAME,
    lod_by=keeps_rows,
    by_autograd="always",
)
def unsqueeze2(
    X: Tensor,
    AxesTensor: Tensor | None = None,
    AxesTensorList: list[Tensor] | None = None,
    *,
    axes: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """`unsqueeze`, and XShape."""
    return _unsqueeze(X, integers(axes, AxesTensor, AxesTensorList)), _x_shape(X)


def _by_x_shape(XShape: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out in the shape of X."""
    return d_Out.reshape(XShape.shape[1:])


def _by_x(X: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out in the shape of X."""
    return d_Out.reshape(X.shape)


for _name in ("reshape2", "flatten2", "squeeze2", "unsqueeze2"):
    gradient(_name, views={"d_X": "d_Out"})(_by_x_shape)
for _name in ("flatten", "squeeze", "unsqueeze"):
    gradient(_name, views={"d_X": "d_Out"}, shape_only="X")(_by_x)
