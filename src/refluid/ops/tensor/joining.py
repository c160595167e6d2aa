"""Tensors put together, taken apart and turned: concat, split, stack, transpose, reverse."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import not_empty
from refluid.ir.names import GRAD
from refluid.ir.operator import Operator
from refluid.ops.gradient_slots import second_order
from refluid.ops.infer import infer_by_probing, share_lod_level
from refluid.ops.lod_rules import joins_rows, keeps_rows
from refluid.ops.reading import integer, integers, is_unknown, unknown
from refluid.ops.registry import GradOp, OperatorDef, gradient, operator
from refluid.ops.signature import Longs

_TRANSPOSE = {"use_mkldnn": False, "data_format": "AnyLayout", "use_quantizer": False}


def _inverse(axis: Sequence[int]) -> list[int]:
    return sorted(range(len(axis)), key=lambda place: axis[place] % len(axis))


@operator(
    "transpose", outputs="Out", views={"Out": "X"}, extra=_TRANSPOSE, lod="", by_autograd="always"
)
def transpose(X: Tensor, *, axis: Sequence[int]) -> Tensor:
    """X with its dimensions in the order `axis`."""
    return X.permute(*axis)


@gradient("transpose", views={"d_X": "d_Out"}, shape_only="X")
def transpose_grad(X: Tensor, Out: Tensor, d_Out: Tensor, *, axis: Sequence[int]) -> Tensor:
    """d_Out with its dimensions put back."""
    return d_Out.permute(_inverse(axis))


@operator(
    "transpose2",
    outputs="Out XShape",
    uses="XShape",
    views={"Out": "X"},
    extra=_TRANSPOSE,
    lod="",
    by_autograd="always",
)
def transpose2(X: Tensor, *, axis: Sequence[int]) -> tuple[Tensor, Tensor]:
    """`transpose`, and XShape."""
    return X.permute(*axis), X.new_empty((0, *X.shape))


@gradient("transpose2", views={"d_X": "d_Out"})
def transpose2_grad(XShape: Tensor, d_Out: Tensor, *, axis: Sequence[int]) -> Tensor:
    """d_Out with its dimensions put back."""
    return d_Out.permute(_inverse(axis))


def infer_concat(definition: OperatorDef, op: Operator) -> None:
    """Sizes add up along the axis; elsewhere a size that is known wins over unknown ones."""
    inputs = [op.block.var_recursive(name) for name in op.input("X")]
    if not all(one.has_description() for one in inputs):
        return
    shape = _joined(op, [one.shape for one in inputs])
    if shape is None:
        infer_by_probing(definition, op)  # says what doesn't fit
        return
    op.block.var_recursive(op.output("Out")[0]).describe(shape=shape, dtype=inputs[0].dtype)
    share_lod_level(definition, op)


def _joined(op: Operator, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """The shape of all together; None if they don't fit, or the axis is a tensor."""
    rank, axis = len(shapes[0]), op.attrs.get("axis", 0)
    if any(shape[rank:] != (1,) * (len(shape) - rank) for shape in shapes):
        return None
    shapes = [shape[:rank] for shape in shapes]
    if len({len(shape) for shape in shapes}) > 1 or op.input("AxisTensor"):
        return None
    if not -rank <= axis < rank:
        raise EnforceNotMet(
            f"The axis is expected to be in range of [-{rank}, {rank}), but got {axis}: concat of "
            f"{list(map(list, shapes))}\n" + op.made_at
        )
    axis %= rank
    sizes = list(zip(*shapes, strict=True))
    if any(len({*of} - {-1}) > 1 for place, of in enumerate(sizes) if place != axis):
        return None
    whole = -1 if min(sizes[axis]) < 0 else sum(sizes[axis])
    return tuple(whole if place == axis else max(of) for place, of in enumerate(sizes))


@operator(
    "concat",
    outputs="Out",
    uses="X AxisTensor",
    differentiable="X",
    extra={"use_mkldnn": False, "use_quantizer": False},
    infer=infer_concat,
    lod_by=joins_rows,
    by_autograd="always",
)
def concat(X: list[Tensor], AxisTensor: Tensor | None = None, *, axis: int = 0) -> Tensor:
    """All X one after the other along `axis`.

    As in Fluid they have the rank of the first: from (3, 2) and (3, 1, 1, 1) come (3, 3).
    """
    if AxisTensor is not None and X[0].is_meta:
        return _of_unknown_sizes(X[0])
    rank = X[0].dim()
    if any(one.dim() > rank for one in X):
        X = [_without_ones(one, rank) for one in X]
    return torch.cat(X, axis if AxisTensor is None else integer(AxisTensor))


def _without_ones(X: Tensor, rank: int) -> Tensor:
    """X without ones at the end of its shape, down to `rank`; as it is where others are there."""
    ones = X.dim() > rank and set(X.shape[rank:]) == {1}
    return X.reshape(X.shape[:rank]) if ones else X


def _of_unknown_sizes(X: Tensor) -> Tensor:
    """A result of X's rank, while shapes are inferred and the axis is a tensor."""
    return X.new_empty([unknown()] * X.dim())


@gradient("concat", views={"d_X": "d_Out"})
def concat_grad(
    X: list[Tensor], AxisTensor: Tensor | None, d_Out: Tensor, *, axis: int = 0
) -> list[Tensor]:
    """d_Out taken apart."""
    axis = (axis if AxisTensor is None else integer(AxisTensor)) % d_Out.dim()
    parts = torch.split(d_Out, [one.shape[axis] for one in X], axis)
    if all(one.dim() == d_Out.dim() for one in X):
        return list(parts)
    return [part.reshape(one.shape) for part, one in zip(parts, X, strict=True)]


def split_gradient(op: Operator) -> list[GradOp]:
    """The gradients of the parts, put together."""
    inputs = {"X": [name + GRAD for name in op.output("Out")]}
    inputs["AxisTensor"] = op.input("AxisTensor")
    outputs = {"Out": [name + GRAD for name in op.input("X")]}
    return [GradOp("concat", inputs, outputs)]


@operator(
    "split",
    outputs="Out*",
    maker=split_gradient,
    views={"Out": "X"},
    lod_by=keeps_rows,
    by_autograd="always",
)
def split(
    X: Tensor,
    AxisTensor: Tensor | None = None,
    SectionsTensorList: list[Tensor] | None = None,
    *,
    sections: Sequence[int] = (),
    num: int = 0,
    axis: int = 0,
) -> list[Tensor]:
    """X in `num` equal parts, or parts of sizes `sections` (one may be -1), along `axis`."""
    if AxisTensor is not None:
        if X.is_meta:
            count = num or len(sections) or len(SectionsTensorList or ())
            return [_of_unknown_sizes(X) for _ in range(count)]
        axis = integer(AxisTensor)
    if num and X.is_cpu and X.shape[axis] % num == 0:
        return list(X.chunk(num, axis))  # takes a third of the time of torch.split
    if num:
        return list(torch.split(X, X.shape[axis] // num, axis))
    sizes = integers(sections, None, SectionsTensorList)
    given, whole = sum(max(size, 0) for size in sizes), X.shape[axis]
    known = not SectionsTensorList and not (X.is_meta and is_unknown(whole))
    if known and given != whole and (given > whole or -1 not in sizes):
        raise EnforceNotMet(
            "Sum of Attr(num_or_sections) must be equal to the input's size along the split "
            f"dimension. But received Attr(num_or_sections) = {sizes}, input(X)'s shape = "
            f"{list(X.shape)}, Attr(dim) = {axis}"
        )
    if X.is_meta and (SectionsTensorList or sum(sizes) > X.shape[axis]):
        lead, tail = X.shape[:axis], X.shape[axis:][1:]
        return [X.new_empty((*lead, size, *tail)) for size in sizes]
    if -1 in sizes:
        sizes[sizes.index(-1)] = X.shape[axis] - sum(sizes) - 1
    return list(torch.split(X, sizes, axis))


@operator("stack", gradient_lod="none", outputs="Y", uses="", by_autograd="always")
def stack(X: list[Tensor], *, axis: int = 0) -> Tensor:
    """All X, which have one shape, along a new dimension."""
    return torch.stack(X, axis)


@gradient("stack", views={"d_X": "d_Y"})
def stack_grad(d_Y: Tensor, *, axis: int = 0) -> list[Tensor]:
    """The slices of d_Y."""
    return list(d_Y.unbind(axis))


def _infer_unstacked(definition: OperatorDef, op: Operator) -> None:
    """Each has the sizes of X but for `axis`, whose size may be unknown."""
    X = op.block.var_recursive(op.input("X")[0])
    if not X.has_description():
        return
    axis, sizes = op.attr("axis"), list(X.shape)
    if not -len(sizes) <= axis < len(sizes):
        raise EnforceNotMet(
            f"The axis is expected to be in range of [-{len(sizes)}, {len(sizes)}), but got "
            f"{axis}: unstack of {sizes}\n{op.made_at}"
        )
    _require_count(sizes.pop(axis), axis, op.attr("num"), op.made_at)
    for name in op.output("Y"):
        op.block.var_recursive(name).describe(shape=sizes, dtype=X.dtype)


def _require_count(size: int, axis: int, num: int, made_at: str = "") -> None:
    if size not in (-1, num):
        raise EnforceNotMet(
            f"unstack gives as many parts as X has along axis {axis}: {size}, but num is {num}"
            + (f"\n{made_at}" if made_at else "")
        )


@operator(
    "unstack",
    gradient_lod="none",
    outputs="Y*",
    uses="",
    views={"Y": "X"},
    lod="",
    by_autograd="always",
    infer=_infer_unstacked,
)
def unstack(X: Tensor, *, axis: int = 0, num: int) -> list[Tensor]:
    """The slices of X along `axis`, whose dimension goes away and has size `num`."""
    _require_count(X.shape[axis], axis, num)
    return list(X.unbind(axis))


@gradient("unstack")
def unstack_grad(d_Y: list[Tensor], *, axis: int = 0, num: int) -> Tensor:
    """The slices of the gradient, put together."""
    return torch.stack(d_Y, axis)


def _stacked_again(op: Operator) -> list[GradOp]:
    """The gradients of the slices, put together."""
    inputs = {"X": [name + GRAD for name in op.output("Out")]}
    outputs = {"Y": [name + GRAD for name in op.input("X")]}
    return [GradOp("stack", inputs, outputs, {"axis": op.attr("axis")})]


@operator("unbind", outputs="Out*", maker=_stacked_again, views={"Out": "X"})
def unbind(X: Tensor, *, axis: int = 0) -> list[Tensor]:
    """The slices of X along `axis`, whose dimension goes away."""
    return list(X.unbind(axis))


def _turned_back(op: Operator) -> list[GradOp]:
    """The gradient turned likewise."""
    inputs = {"X": [name + GRAD for name in op.output("Out")]}
    outputs = {"Out": [name + GRAD for name in op.input("X")]}
    attrs = {"axis": op.attr("axis")} if op.type == "reverse" else None
    return [GradOp(op.type, inputs, outputs, attrs)]


@operator("reverse", outputs="Out", maker=_turned_back)
def reverse(X: Tensor, *, axis: Annotated[Sequence[int], not_empty]) -> Tensor:
    """X back to front along the dimensions `axis`."""
    return X.flip(tuple(axis))


@operator("flip", outputs="Out", maker=_turned_back)
def flip(X: Tensor, *, dims: Sequence[int]) -> Tensor:
    """X back to front along the dimensions `dims`."""
    return X.flip(tuple(dims))


@operator("roll", outputs="Out", uses="X")
def roll(X: Tensor, *, shifts: Longs = (), dims: Longs = ()) -> Tensor:
    """X moved on by `shifts` along `dims`, what falls off comes in again; no dims: X flat."""
    return X.roll(tuple(shifts), tuple(dims))


@second_order("concat", "X* AxisTensor? DDX*", "DDOut?")
def concat_grad_grad(
    X: list[Tensor], AxisTensor: Tensor | None, DDX: list[Tensor | None], *, axis: int = 0
) -> Tensor:
    """All DDX one after the other; zeros for inputs that have no gradient."""
    flows = [torch.zeros_like(x) if dd is None else dd for x, dd in zip(X, DDX, strict=True)]
    joined: Tensor = concat(flows, AxisTensor, axis=axis)
    return joined
