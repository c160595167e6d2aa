"""Tensors made larger or smaller at their edges, or repeated: pad, crop, expand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ir.checks import one_of
from refluid.ops.bounded import Images
from refluid.ops.drafts import say
from refluid.ops.gradient_slots import made_of_flows
from refluid.ops.lod_rules import keeps_rows
from refluid.ops.reading import integers, is_unknown, unknown
from refluid.ops.registry import gradient, operator
from refluid.ops.tensor.packets import without_padding

_MODES = {"constant": "constant", "reflect": "reflect", "edge": "replicate"}


def _last_first(paddings: Sequence[int]) -> list[int]:
    """(before, after) pairs of all dimensions in the order that torch wants them."""
    pairs = [paddings[place : place + 2] for place in range(0, len(paddings), 2)]
    return [size for pair in reversed(pairs) for size in pair]


@operator("pad", gradient_lod="none", outputs="Out", uses="", lod_by=keeps_rows)
def pad(X: Tensor, *, paddings: Sequence[int], pad_value: float = 0.0) -> Tensor:
    """X with paddings[2 * i] elements before and paddings[2 * i + 1] after along dimension i."""
    if len(paddings) != 2 * X.dim() or min(paddings, default=0) < 0:
        raise EnforceNotMet(
            f"paddings is {list(paddings)} but has to be two numbers, 0 or more, for each of the "
            f"{X.dim()} dimensions of X"
        )
    return F.pad(X, _last_first(paddings), value=pad_value)


@gradient("pad")
def pad_grad(d_Out: Tensor, *, paddings: Sequence[int]) -> Tensor:
    """d_Out without the padding, as Fluid takes it off (see `packets`)."""
    before, after = paddings[::2], paddings[1::2]
    sizes = zip(d_Out.shape, before, after, strict=True)
    return without_padding(d_Out, before, [size - one - two for size, one, two in sizes])


@operator("pad2d", outputs="Out", uses="X Paddings", differentiable="X")
def pad2d(
    X: Images,
    Paddings: Tensor | None = None,
    *,
    paddings: Sequence[int],
    pad_value: float = 0.0,
    mode: Annotated[str, one_of("constant", "reflect", "edge")] = "constant",
    data_format: str = "NCHW",
) -> Tensor:
    """Images padded by (top, bottom, left, right); mode: constant, reflect or edge."""
    top, bottom, left, right = integers(paddings, Paddings)
    x = X.permute(0, 3, 1, 2) if data_format == "NHWC" else X
    value = pad_value if mode == "constant" else None
    out = F.pad(x, (left, right, top, bottom), _MODES[mode], value)
    return out.permute(0, 2, 3, 1) if data_format == "NHWC" else out


for _name in ("pad", "pad2d"):  # what lies around depends on nothing
    say(f"{_name}_grad", maker=made_of_flows("X", "Out", _name, pad_value=0.0))


@operator("pad_constant_like", outputs="Out", uses="Y", differentiable="Y")
def pad_constant_like(X: Tensor, Y: Tensor, *, pad_value: float = 0.0) -> Tensor:
    """Y padded at the end of each dimension to the shape of X."""
    if X.dim() != Y.dim() or any(y > x for x, y in zip(X.shape, Y.shape, strict=True)):
        raise EnforceNotMet(
            f"X {list(X.shape)} has to have the dimensions of Y {list(Y.shape)}, each as large or "
            "larger"
        )
    sizes = [0] * (2 * X.dim())
    sizes[1::2] = [X.shape[dim] - Y.shape[dim] for dim in range(X.dim())]
    return F.pad(Y, _last_first(sizes), value=pad_value)


@gradient("pad_constant_like")
def pad_constant_like_grad(Y: Tensor, d_Out: Tensor) -> Tensor:
    """d_Out without the padding, as Fluid takes it off (see `packets`)."""
    return without_padding(d_Out, [0] * Y.dim(), Y.shape)


def _cropped(X: Tensor, offsets: Sequence[int], shape: Sequence[int]) -> Tensor:
    starts = offsets or [0] * X.dim()
    if X.is_meta:
        return X.new_empty(_known_sizes(X, starts, shape))
    sizes = [
        X.shape[dim] - start if size == -1 else size
        for dim, (start, size) in enumerate(zip(starts, shape, strict=True))
    ]
    every = zip(starts, sizes, X.shape, strict=True)
    if any(start < 0 or start + size > whole for start, size, whole in every):
        raise EnforceNotMet(
            f"a part of sizes {sizes} from {list(starts)} on is not inside of X {list(X.shape)}"
        )
    parts = zip(starts, sizes, strict=True)
    return X[tuple(slice(start, start + size) for start, size in parts)]


def _known_sizes(X: Tensor, starts: Sequence[int], shape: Sequence[int]) -> list[int]:
    """Sizes of a part of X; what is left is unknown where the whole or the start is."""
    sizes = []
    for whole, start, size in zip(X.shape, starts, shape, strict=True):
        left = unknown() if is_unknown(whole) or is_unknown(start) else whole - start
        sizes.append(left if size == -1 else size)
    return sizes


def _uncropped(X: Tensor, d_Out: Tensor, offsets: Sequence[int]) -> Tensor:
    sizes: list[int] = []
    for dim, start in enumerate(offsets or [0] * X.dim()):
        sizes += [start, X.shape[dim] - start - d_Out.shape[dim]]
    return F.pad(d_Out, _last_first(sizes))


@operator(
    "crop",
    gradient_lod="none",
    outputs="Out",
    uses="X Offsets",
    differentiable="X",
    views={"Out": "X"},
    lod="",
)
def crop(
    X: Tensor,
    Y: Tensor | None = None,
    Offsets: Tensor | None = None,
    *,
    offsets: Sequence[int] = (),
    shape: Sequence[int] = (),
) -> Tensor:
    """The part of X of that shape, or Y's, that begins at `offsets`."""
    return _cropped(X, integers(offsets, Offsets), shape if Y is None else Y.shape)


@gradient("crop")
def crop_grad(
    X: Tensor, Offsets: Tensor | None, d_Out: Tensor, *, offsets: Sequence[int] = ()
) -> Tensor:
    """d_Out in its place, zero around it."""
    return _uncropped(X, d_Out, integers(offsets, Offsets))


@operator(
    "crop_tensor",
    gradient_lod="none",
    outputs="Out",
    uses="X Offsets OffsetsTensor",
    differentiable="X",
    views={"Out": "X"},
)
def crop_tensor(
    X: Tensor,
    Shape: Tensor | None = None,
    Offsets: Tensor | None = None,
    ShapeTensor: list[Tensor] | None = None,
    OffsetsTensor: list[Tensor] | None = None,
    *,
    offsets: Sequence[int] = (),
    shape: Sequence[int] = (),
) -> Tensor:
    """The part of X of that shape (-1: what is left) that begins at `offsets`."""
    starts = integers(offsets, Offsets, OffsetsTensor)
    known = [size or -1 for size in shape]
    sizes = integers(known, Shape, ShapeTensor)
    if not X.is_meta and any(map(_outside, starts, sizes, X.shape)):
        raise EnforceNotMet(
            f"offsets {starts} and shape {sizes} have to lie within X, {list(X.shape)}"
        )
    return _cropped(X, starts, sizes)


def _outside(start: int, size: int, whole: int) -> bool:
    return start < 0 or start + max(size, 0) > whole


@gradient("crop_tensor")
def crop_tensor_grad(
    X: Tensor,
    Offsets: Tensor | None,
    OffsetsTensor: list[Tensor] | None,
    d_Out: Tensor,
    *,
    offsets: Sequence[int] = (),
) -> Tensor:
    """d_Out in its place, zero around it."""
    return _uncropped(X, d_Out, integers(offsets, Offsets, OffsetsTensor))


def _times(whole: int, size: int) -> int:
    """How often `size` lies in `whole`; nothing lies in nothing once."""
    return whole // size if size else 1


def _folded(d_Out: Tensor, X: Tensor) -> Tensor:
    """The sum over all repetitions of X in d_Out."""
    pairs = zip(d_Out.shape, X.shape, strict=True)
    shape = [part for whole, size in pairs for part in (_times(whole, size), size)]
    return d_Out.reshape(shape).sum(list(range(0, 2 * X.dim(), 2)))


@operator(
    "expand",
    gradient_lod="none",
    outputs="Out",
    uses="X ExpandTimes expand_times_tensor",
    differentiable="X",
    lod_by=keeps_rows,
    by_autograd="always",
)
def expand(
    X: Tensor,
    ExpandTimes: Tensor | None = None,
    expand_times_tensor: list[Tensor] | None = None,
    *,
    expand_times: Sequence[int] = (),
) -> Tensor:
    """X repeated expand_times[i] times along dimension i."""
    times = integers(expand_times, ExpandTimes, expand_times_tensor)
    if len(times) != X.dim() or min(times, default=1) < 1:
        raise EnforceNotMet(
            f"expand_times is {times} but has to be a number above 0 for each dimension of X, "
            f"{list(X.shape)}"
        )
    return X.repeat(*times)


@gradient("expand")
def expand_grad(
    X: Tensor,
    ExpandTimes: Tensor | None,
    expand_times_tensor: list[Tensor] | None,
    d_Out: Tensor,
) -> Tensor:
    """The sum over all repetitions."""
    return _folded(d_Out, X)


@operator(
    "expand_as", gradient_lod="none", outputs="Out", uses="X target_tensor", differentiable="X"
)
def expand_as(X: Tensor, target_tensor: Tensor) -> Tensor:
    """X repeated to the shape of target_tensor."""
    pairs = list(zip(target_tensor.shape, X.shape, strict=True))
    if not X.is_meta and any(_times(target, size) * size != target for target, size in pairs):
        raise EnforceNotMet(
            f"the sizes of target_tensor, {list(target_tensor.shape)}, have to be multiples of "
            f"those of X, {list(X.shape)}"
        )
    return X.repeat(*[_times(target, size) for target, size in pairs])


@gradient("expand_as")
def expand_as_grad(X: Tensor, target_tensor: Tensor, d_Out: Tensor) -> Tensor:
    """The sum over all repetitions."""
    return _folded(d_Out, X)
