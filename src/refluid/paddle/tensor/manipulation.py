"""Variables in other shapes, joined, parted and turned."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.tensor import joining, shaping, slicing
from refluid.fluid.functions.tensor.tensor_lists import Sizes, free_constant, mixed
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import cast_to, dimension, known, number_of, rank_of, sizes_of


def cast(x: Variable, dtype: Any) -> Variable:
    """x in another element type."""
    kind = as_dtype(dtype)
    return op("cast", {"X": x}, {"in_dtype": int(x.dtype), "out_dtype": int(kind)}, dtype=kind)


def shape(input: Variable) -> Variable:
    """The sizes of all dimensions, int32."""
    return op("shape", {"Input": input}, dtype=VarType.INT32)


def rank(input: Variable) -> Variable:
    """The number of dimensions, int32 of shape (1,)."""
    from refluid.paddle.tensor.making import constant

    return constant(rank_of(input), VarType.INT32)


def reshape(x: Variable, shape: Sizes, name: str | None = None) -> Variable:
    """x in another shape of as many elements; -1 (once) is inferred, 0 copies a size of x."""
    shape = sizes_of(shape)
    sizes = shape if isinstance(shape, Variable) else [number_of(one) for one in shape]
    return shaping.reshape(x, sizes, name=name)


def view(x: Variable, shape_or_dtype: Any, name: str | None = None) -> Variable:
    """x in another shape. NotImplementedError for an element type."""
    if not isinstance(shape_or_dtype, list | tuple):
        raise NotImplementedError("refluid's view takes a shape; use cast for an element type")
    return reshape(x, shape_or_dtype, name)


def flatten(
    x: Variable, start_axis: int = 0, stop_axis: int = -1, name: str | None = None
) -> Variable:
    """x with the dimensions from `start_axis` to `stop_axis` as one."""
    rank = rank_of(x)
    first, last = dimension(x, start_axis), dimension(x, stop_axis)
    if last < first:
        raise ValueError("The stop_axis should be larger than stat_axis")
    middle = list(x.shape[first : last + 1])
    merged = -1
    if known(middle):
        merged = 1
        for size in middle:
            merged *= size
    before = [0] * first
    after = list(x.shape[last + 1 :])
    if not known(after) and merged == -1:
        return _merged(x, first, last, rank, name)
    return op("reshape2", {"X": x}, {"shape": [*before, merged, *after]}, name=name)


def _merged(x: Variable, first: int, last: int, rank: int, name: str | None) -> Variable:
    """Where sizes on both sides are unknown: the merged dimensions are moved to the front."""
    order = [*range(first, last + 1), *range(first), *range(last + 1, rank)]
    front = op("transpose2", {"X": x}, {"axis": order})
    count = last - first + 1
    sizes = op("shape", {"Input": front}, dtype=VarType.INT32)
    rest = slicing.slice(sizes, [0], [count], [rank])
    inferred = joining.concat([free_constant(-1), rest], 0)
    merged = shaping.reshape(front, inferred)
    back = [*range(1, first + 1), 0, *range(first + 1, rank - count + 1)]
    return op("transpose2", {"X": merged}, {"axis": back}, name=name)


def squeeze(x: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """x without dimensions of size 1: those of `axis` where they are, else all."""
    axes = [] if axis is None else [axis] if isinstance(axis, int) else list(axis)
    axes = [dimension(x, one) for one in axes]
    if axis is not None:
        axes = [one for one in axes if x.shape[one] in (1, -1)]
        if not axes:
            return op("assign", {"X": x}, name=name)
    return op("squeeze2", {"X": x}, {"axes": axes}, name=name)


def unsqueeze(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """x with dimensions of size 1 put in at `axis`."""
    axes = [axis] if isinstance(axis, int) else sizes_of(axis)
    axes = axes if isinstance(axes, Variable) else [number_of(one) for one in axes]
    return shaping.unsqueeze(x, axes, name)


def transpose(x: Variable, perm: Sequence[int], name: str | None = None) -> Variable:
    """x with its dimensions in the order `perm`."""
    return shaping.transpose(x, [dimension(x, one) for one in perm], name)


def moveaxis(x: Variable, source: Any, destination: Any, name: str | None = None) -> Variable:
    """x with dimensions moved to other places."""
    of = [source] if isinstance(source, int) else list(source)
    to = [destination] if isinstance(destination, int) else list(destination)
    if len(of) != len(to):
        raise ValueError("'source' must have the same number with 'destination'")
    moved = {dimension(x, place): dimension(x, one) for one, place in zip(of, to, strict=True)}
    others = iter(one for one in range(rank_of(x)) if one not in moved.values())
    perm = [moved[place] if place in moved else next(others) for place in range(rank_of(x))]
    return transpose(x, perm, name)


def concat(x: Sequence[Variable] | Variable, axis: Any = 0, name: str | None = None) -> Variable:
    """Variables one after another along `axis`."""
    return joining.concat(list(x) if isinstance(x, tuple) else x, number_of(axis), name)


def stack(x: Sequence[Variable], axis: int = 0, name: str | None = None) -> Variable:
    """Variables of one shape along a new dimension."""
    return op("stack", {"X": list(x)}, {"axis": axis}, ("Y",), name=name)[0]


def split(
    x: Variable, num_or_sections: int | Sequence[Any], axis: Any = 0, name: str | None = None
) -> list[Variable]:
    """x in equal parts, or in parts of the sizes given (one of which may be -1)."""
    parts = num_or_sections if isinstance(num_or_sections, int) else list(num_or_sections)
    found: list[Variable] = joining.split(x, parts, number_of(axis), name)
    return found


def chunk(x: Variable, chunks: int, axis: Any = 0, name: str | None = None) -> list[Variable]:
    """x in equal parts."""
    return split(x, chunks, axis, name)


def unstack(x: Variable, axis: int = 0, num: int | None = None) -> list[Variable]:
    """The parts of x along `axis`, each without that dimension."""
    return joining.unstack(x, axis, num)


def unbind(input: Variable, axis: int = 0) -> list[Variable]:
    """The parts of a variable along `axis`, each without that dimension."""
    return joining.unstack(input, axis)


def flip(x: Variable, axis: Any, name: str | None = None) -> Variable:
    """x with the order along `axis` turned."""
    return op(
        "flip", {"X": x}, {"dims": [axis] if isinstance(axis, int) else list(axis)}, name=name
    )


def rot90(
    x: Variable, k: int = 1, axes: Sequence[int] = (0, 1), name: str | None = None
) -> Variable:
    """x turned by 90 degrees k times, from the first of two axes to the second."""
    first, second = (dimension(x, one) for one in axes)
    turns = k % 4
    if turns == 0:
        return op("assign", {"X": x}, name=name)
    if turns == 2:
        return flip(x, [first, second], name)
    perm = list(range(rank_of(x)))
    perm[first], perm[second] = second, first
    if turns == 1:
        return transpose(flip(x, second), perm, name)
    return flip(transpose(x, perm), second, name)


def roll(x: Variable, shifts: Any, axis: Any = None, name: str | None = None) -> Variable:
    """x shifted along `axis`, what falls off coming in at the other end; all in one row if None."""
    moved = [shifts] if isinstance(shifts, int) else list(shifts)
    if axis is None:
        flat = op("reshape2", {"X": x}, {"shape": [-1]})
        return reshape_like(op("roll", {"X": flat}, {"shifts": moved, "dims": [0]}), x, name)
    dims = [axis] if isinstance(axis, int) else list(axis)
    return op("roll", {"X": x}, {"shifts": moved, "dims": dims}, name=name)


def reshape_like(x: Variable, like: Variable, name: str | None = None) -> Variable:
    """x in the shape of another variable."""
    sizes = list(like.shape)
    if sum(size < 0 for size in sizes) > 1:
        return shaping.reshape(x, op("shape", {"Input": like}, dtype=VarType.INT32), name=name)
    return op("reshape2", {"X": x}, {"shape": sizes}, name=name)


def tile(x: Variable, repeat_times: Any, name: str | None = None) -> Variable:
    """x repeated along each dimension; the last ones where there are fewer numbers."""
    times = [repeat_times] if isinstance(repeat_times, int) else sizes_of(repeat_times)
    if isinstance(times, Variable):
        return shaping.expand(x, times, name)
    listed = [number_of(one) for one in times]
    if len(listed) > rank_of(x):
        x = op("unsqueeze2", {"X": x}, {"axes": list(range(len(listed) - rank_of(x)))})
    return shaping.expand(x, [1] * (rank_of(x) - len(listed)) + listed, name)


def expand(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """x broadcast to a shape; -1 keeps the size."""
    sizes = shape if isinstance(shape, Variable) else [number_of(one) for one in shape]
    inputs, given = mixed(sizes, "expand", "Shape", "expand_shapes_tensor", free_constant)
    return op("expand_v2", {"X": x} | inputs, {"shape": given}, name=name)


def broadcast_to(x: Variable, shape: Any, name: str | None = None) -> Variable:
    """x broadcast to a shape; -1 keeps the size."""
    return expand(x, shape, name)


def expand_as(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """x broadcast to the shape of y."""
    if known(y.shape):
        return expand(x, list(y.shape), name)
    return expand(x, op("shape", {"Input": y}, dtype=VarType.INT32), name)


def broadcast_tensors(input: Sequence[Variable], name: str | None = None) -> list[Variable]:
    """Variables broadcast to the shape that fits all."""
    total = input[0]
    for one in input[1:]:
        total = op("elementwise_add", {"X": cast_to(total, one.dtype), "Y": one})
    return [expand_as(one, total) for one in input]


def slice(input: Variable, axes: Sequence[int], starts: Any, ends: Any) -> Variable:
    """Parts of a variable from `starts` to `ends` along `axes`."""
    return slicing.slice(input, axes, _bounds(starts), _bounds(ends))


def _bounds(given: Any) -> Any:
    return given if isinstance(given, Variable) else [number_of(one) for one in given]


def strided_slice(
    x: Variable, axes: Sequence[int], starts: Any, ends: Any, strides: Any, name: str | None = None
) -> Variable:
    """Each `strides`-th part from `starts` to `ends` along `axes`."""
    return slicing.strided_slice(x, axes, _bounds(starts), _bounds(ends), _bounds(strides))


def crop(x: Variable, shape: Any = None, offsets: Any = None, name: str | None = None) -> Variable:
    """A part of x of this shape, from `offsets` on."""
    from refluid.fluid.functions.tensor.padding import crop_tensor

    return crop_tensor(x, list(x.shape) if shape is None else shape, offsets, name)


def tolist(x: Any) -> Any:
    """The numbers as lists of Python's, where functions run at once."""
    return x.numpy().tolist()


def shard_index(
    input: Variable, index_num: int, nshards: int, shard_id: int, ignore_value: int = -1
) -> Variable:
    """Indices of one shard counted from its first; `ignore_value` for those of others."""
    attrs = {
        "index_num": index_num,
        "nshards": nshards,
        "shard_id": shard_id,
        "ignore_value": ignore_value,
    }
    return op("shard_index", {"X": input}, attrs, stop_gradient=True)
