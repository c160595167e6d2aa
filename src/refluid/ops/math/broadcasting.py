"""Shapes of binary operators: Y broadcast onto X from dimension `axis`; gradients summed back."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import repeat

from torch import Tensor

from refluid.core.advice import fix_line
from refluid.core.dtypes import VarType
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ops.infer import Infer, share_lod_level
from refluid.ops.registry import OperatorDef

Shape = tuple[int, ...]


def broadcast(X: Sequence[int], Y: Sequence[int], axis: int) -> Shape | None:
    """The shape of the result, -1 where unknown; None where the shapes don't fit."""
    if tuple(X) == tuple(Y):
        return tuple(X)
    if len(X) < len(Y):
        X, Y = Y, X
    trailing = list(Y)
    start = len(X) - len(Y) if axis == -1 else axis
    while len(trailing) > 1 and start + len(trailing) > len(X) and trailing[-1] == 1:
        trailing.pop()
    after = len(X) - start - len(trailing)
    if start < 0 or after < 0:
        return None
    aligned = [*repeat(1, start), *trailing, *repeat(1, after)]
    return common(X, aligned)


def common(one: Sequence[int], other: Sequence[int]) -> Shape | None:
    """The shape that both broadcast to, of equal rank; a known size wins over an unknown one."""
    sizes = [_size(*pair) for pair in zip(one, other, strict=True)]
    return None if None in sizes else tuple(size for size in sizes if size is not None)


def _size(one: int, other: int) -> int | None:
    if one == other or other == 1:
        return one
    if one == 1:
        return other
    return max(one, other) if min(one, other) < 0 else None


def infer_comparison(definition: OperatorDef, op: Operator) -> None:
    """The rule of comparisons, whose X has to be of Y's rank at least: the result is bool."""
    x, y = (op.block.var_recursive(op.input(slot)[0]) for slot in "XY")
    if x.has_description() and y.has_description() and len(x.shape) < len(y.shape):
        raise EnforceNotMet(
            f"The size of dim_y should not be greater than dim_x's, but received dim_y: "
            f"{len(y.shape)} > dim_x: {len(x.shape)}: X {x.name} is {list(x.shape)} and Y "
            f"{y.name} {list(y.shape)}\n" + op.made_at + f"\n  [operator < {op.type} > error]"
        )
    infer_broadcast(VarType.BOOL)(definition, op)


def infer_broadcast(dtype: VarType | None = None) -> Infer:
    """A rule: the broadcast shape of X and Y, and their type or `dtype`."""

    def rule(definition: OperatorDef, op: Operator) -> None:
        x, y = (op.block.var_recursive(op.input(slot)[0]) for slot in "XY")
        if not x.has_description() or not y.has_description():
            return
        axis = op.attrs.get("axis", -1)
        shape = broadcast(x.shape, y.shape, axis)
        if shape is None:
            raise EnforceNotMet(
                f"operator {op.type} can't take X {x.name} of shape {list(x.shape)} and "
                f"Y {y.name} of shape {list(y.shape)}: Y doesn't broadcast onto X from dimension "
                f"axis={axis}\n" + op.made_at + fix_line("doesn't broadcast")
            )
        for name in op.output("Out"):
            op.block.var_recursive(name).describe(
                shape=shape, dtype=x.dtype if dtype is None else dtype
            )
        share_lod_level(definition, op)

    return rule


def conjugate(x: Tensor) -> Tensor:
    """The conjugate of complex numbers, by which gradients pass; real ones as they are."""
    return x.conj() if x.dtype.is_complex else x


def unbroadcast_both(
    X: Tensor, Y: Tensor, d_x: Tensor | None, d_y: Tensor | None, axis: int
) -> tuple[Tensor | None, Tensor | None]:
    """Gradients of X and Y from those of what `align_both` made of them; None stays None."""
    given = d_y if d_x is None else d_x
    if given is None or X.shape == Y.shape == given.shape:
        return d_x, d_y
    of_x, of_y = (axis, -1) if X.dim() < Y.dim() else (-1, axis)
    return (
        None if d_x is None else unbroadcast(d_x, X, of_x),
        None if d_y is None else unbroadcast(d_y, Y, of_y),
    )


def unbroadcast(grad: Tensor, like: Tensor, axis: int) -> Tensor:
    """The gradient of Y from that of the broadcast Y: summed over the dimensions added."""
    if grad.shape == like.shape:
        return grad
    rank = grad.dim()
    shape = list(like.shape)
    start = rank - len(shape) if axis == -1 else axis
    while len(shape) > 1 and start + len(shape) > rank and shape[-1] == 1:
        shape.pop()
    lead, tail = max(start, 0), rank - start - len(shape)
    dims = list(range(lead)) + list(range(rank - tail, rank))
    dims += [
        lead + index
        for index, size in enumerate(shape)
        if size == 1 and grad.shape[lead + index] != 1
    ]
    return grad.sum(dims).reshape(like.shape) if dims else grad.reshape(like.shape)
