"""Elements chosen by their place or their size."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.tensor import arranging
from refluid.fluid.functions.tensor.slicing import gather as fluid_gather
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import both, dimension, number_of, rank_of


def _place(
    op_type: str, x: Variable, axis: int | None, keepdim: bool, dtype: Any, name: str | None
) -> Variable:
    kind = as_dtype(dtype)
    rank = rank_of(x)
    if axis is None:
        x = op("reshape2", {"X": x}, {"shape": [-1]})
    attrs = {"axis": 0 if axis is None else axis, "keepdims": keepdim, "dtype": int(kind)}
    found = op(op_type, {"X": x}, attrs, dtype=kind, name=name, stop_gradient=True)
    if axis is None and keepdim:
        return op("reshape2", {"X": found}, {"shape": [1] * rank})
    return found


def argmax(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable:
    """Where the greatest element is along `axis`; in all of x, as one row, where None."""
    return _place("arg_max", x, axis, keepdim, dtype, name)


def argmin(
    x: Variable,
    axis: int | None = None,
    keepdim: bool = False,
    dtype: Any = "int64",
    name: str | None = None,
) -> Variable:
    """Where the smallest element is along `axis`; in all of x, as one row, where None."""
    return _place("arg_min", x, axis, keepdim, dtype, name)


def _sorted(x: Variable, axis: int, descending: bool, name: str | None) -> tuple[Variable, ...]:
    attrs = {"axis": axis, "descending": descending}
    makes = {"Out": x.dtype, "Indices": VarType.INT64}
    return op("argsort", {"X": x}, attrs, makes, stop_gradient=("Indices",), name=name)


def argsort(
    x: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> Variable:
    """Where the elements of the sorted x were, int64."""
    return _sorted(x, axis, descending, name)[1]


def sort(
    x: Variable, axis: int = -1, descending: bool = False, name: str | None = None
) -> Variable:
    """x sorted along `axis`."""
    return _sorted(x, axis, descending, name)[0]


def topk(
    x: Variable,
    k: Any,
    axis: int | None = None,
    largest: bool = True,
    sorted: bool = True,
    name: str | None = None,
) -> tuple[Variable, ...]:
    """The k largest (or smallest) elements along `axis` (the last), and their int64 positions."""
    count = number_of(k)
    inputs: dict[str, Any] = {"X": x}
    attrs = {"axis": -1 if axis is None else axis, "largest": largest, "sorted": sorted}
    if isinstance(count, Variable):
        inputs["K"] = count
    else:
        attrs["k"] = count
    makes = {"Out": x.dtype, "Indices": VarType.INT64}
    return op("top_k_v2", inputs, attrs, makes, stop_gradient=("Indices",), name=name)


def kthvalue(
    x: Variable, k: int, axis: int | None = None, keepdim: bool = False, name: str | None = None
) -> tuple[Variable, ...]:
    """The k-th smallest element along `axis` (the last), and its int64 position."""
    attrs = {"k": k, "axis": -1 if axis is None else axis, "keepdim": keepdim}
    makes = {"Out": x.dtype, "Indices": VarType.INT64}
    return op("kthvalue", {"X": x}, attrs, makes, stop_gradient=("Indices",), name=name)


def where(condition: Variable, x: Any = None, y: Any = None, name: str | None = None) -> Any:
    """x where the condition holds, else y; without them the places where it does."""
    if x is None and y is None:
        return nonzero(condition, as_tuple=True)
    if x is None or y is None:
        raise ValueError("either both or neither of x and y should be given")
    if not isinstance(x, Variable) and not isinstance(y, Variable):
        from refluid.paddle.tensor.creation import to_tensor

        x, y = to_tensor(x), to_tensor(y)
    x, y = both(x, y)
    inputs = {"Condition": condition, "X": x, "Y": y}
    return op("where", inputs, dtype=x.dtype, name=name)


def nonzero(x: Variable, as_tuple: bool = False) -> Any:
    """Where the elements are not zero: (n, rank) int64, or a column for each dimension."""
    found = op("where_index", {"Condition": x}, dtype=VarType.INT64, stop_gradient=True)
    if not as_tuple:
        return found
    if rank_of(x) == 1:
        return (found,)
    return tuple(
        op("slice", {"Input": found}, {"axes": [1], "starts": [one], "ends": [one + 1]})
        for one in range(rank_of(x))
    )


def masked_select(x: Variable, mask: Variable, name: str | None = None) -> Variable:
    """The elements where the mask holds, in one row."""
    places = op("where_index", {"Condition": mask}, dtype=VarType.INT64, stop_gradient=True)
    return op("gather_nd", {"X": x, "Index": places}, name=name)


def masked_fill(x: Variable, mask: Variable, value: Any, name: str | None = None) -> Variable:
    """The value where the mask holds, else x."""
    if isinstance(value, Variable):
        return op("where", {"Condition": mask, "X": both(x, value)[1], "Y": x}, dtype=x.dtype)
    return op("fill_where", {"X": x, "Mask": mask}, {"value": float(value)}, dtype=x.dtype)


def gather(x: Variable, index: Variable, axis: Any = None, name: str | None = None) -> Variable:
    """The parts of x along `axis` (the first) that a row of numbers names."""
    place = 0 if axis is None else number_of(axis)
    if place == 0:
        return fluid_gather(x, index, overwrite=False)
    return op("index_select", {"X": x, "Index": index}, {"dim": dimension(x, place)}, name=name)


def gather_nd(x: Variable, index: Variable, name: str | None = None) -> Variable:
    """The parts of x that the rows of `index` name."""
    return op("gather_nd", {"X": x, "Index": index}, name=name)


def scatter(
    x: Variable, index: Variable, updates: Variable, overwrite: bool = True, name: str | None = None
) -> Variable:
    """x with the rows that `index` names replaced by `updates`, or by their sums."""
    if not x.stop_gradient:  # Fluid's operator lets gradients through to rows that it replaces
        x = op("elementwise_mul", {"X": x, "Y": _kept_rows(x, index, updates)})
    inputs = {"X": x, "Ids": index, "Updates": updates}
    return op("scatter", inputs, {"overwrite": overwrite}, name=name)


def _kept_rows(x: Variable, index: Variable, updates: Variable) -> Variable:
    """1 in rows that `index` doesn't name, 0 in the others."""
    ones, zeros = (
        op("fill_any_like", {"X": like}, {"value": value, "dtype": int(x.dtype)}, dtype=x.dtype)
        for like, value in ((x, 1.0), (updates, 0.0))
    )
    inputs = {"X": ones, "Ids": index, "Updates": zeros}
    made: Variable = op("scatter", inputs, {"overwrite": True}, stop_gradient=True)
    return made


def scatter_nd(index: Variable, updates: Variable, shape: Any, name: str | None = None) -> Variable:
    """Zeros of a shape with `updates` added where the rows of `index` say."""
    return arranging.scatter_nd(index, updates, shape, name)


def scatter_nd_add(
    x: Variable, index: Variable, updates: Variable, name: str | None = None
) -> Variable:
    """x with `updates` added where the rows of `index` say."""
    inputs = {"X": x, "Index": index, "Updates": updates}
    return op("scatter_nd_add", inputs, name=name)


def index_select(x: Variable, index: Variable, axis: int = 0, name: str | None = None) -> Variable:
    """The parts of x along `axis` that a row of numbers names."""
    return op("index_select", {"X": x, "Index": index}, {"dim": axis}, name=name)


def index_sample(x: Variable, index: Variable) -> Variable:
    """Of each row of x the elements that the row of `index` names."""
    return op("index_sample", {"X": x, "Index": index})


def index_add(
    x: Variable, index: Variable, axis: int, value: Variable, name: str | None = None
) -> Variable:
    """x with the parts of `value` added to those along `axis` that `index` names."""
    inputs = {"Index": index, "X": x, "AddValue": value}
    return op("index_add", inputs, {"axis": axis}, dtype=x.dtype, name=name)


def take_along_axis(
    arr: Variable, indices: Variable, axis: int, broadcast: bool = True
) -> Variable:
    """The elements along `axis` that `indices` names; broadcast to the other sizes first."""
    if broadcast:
        indices = _spread(arr, indices, axis)
    return op("take_along_axis", {"Input": arr, "Index": indices}, {"Axis": axis})


def put_along_axis(
    arr: Variable,
    indices: Variable,
    values: Any,
    axis: int,
    reduce: str = "assign",
    include_self: bool = True,
    broadcast: bool = True,
) -> Variable:
    """`values` put to where `indices` says along `axis`, or reduced with what is there.

    reduce: assign, add, mul, mean, amin or amax. include_self: what was there counts, too.
    """
    if broadcast:
        indices = _spread(arr, indices, axis)
    inputs = {"Input": arr, "Value": both(arr, values)[1], "Index": indices}
    attrs = {"Axis": axis, "Reduce": reduce, "Include_self": include_self}
    return op("put_along_axis", inputs, attrs, dtype=arr.dtype)


def _spread(arr: Variable, indices: Variable, axis: int) -> Variable:
    sizes = list(arr.shape)
    place = dimension(arr, axis)
    sizes[place] = indices.shape[place]
    if list(indices.shape) == sizes:
        return indices
    return op("expand_v2", {"X": indices}, {"shape": sizes})


def repeat_interleave(
    x: Variable, repeats: Any, axis: int | None = None, name: str | None = None
) -> Variable:
    """Each part along `axis` as often as said, one after another; of all as one row where None."""
    if axis is None:
        x = op("reshape2", {"X": x}, {"shape": [-1]})
    dim = 0 if axis is None else dimension(x, axis)
    if isinstance(repeats, Variable):
        return op("repeat_interleave", {"X": x, "RepeatsTensor": repeats}, {"dim": dim}, name=name)
    return op("repeat_interleave", {"X": x}, {"Repeats": repeats, "dim": dim}, name=name)


def searchsorted(
    sorted_sequence: Variable,
    values: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Variable:
    """Where each value would be put into the sorted sequence of its row."""
    kind = VarType.INT32 if out_int32 else VarType.INT64
    inputs = {"SortedSequence": sorted_sequence, "Values": values}
    attrs = {"out_int32": out_int32, "right": right}
    return op("searchsorted", inputs, attrs, dtype=kind, name=name, stop_gradient=True)


def bucketize(
    x: Variable,
    sorted_sequence: Variable,
    out_int32: bool = False,
    right: bool = False,
    name: str | None = None,
) -> Variable:
    """Where each element of x would be put into one sorted row."""
    return searchsorted(sorted_sequence, x, out_int32, right, name)
