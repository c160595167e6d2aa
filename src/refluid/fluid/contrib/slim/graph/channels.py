"""Which channels belong together: what else goes when some are cut out of a parameter.

A link says that the dimensions of several variables are one: index i of the link is `repeat`
indices of each end, from `start + i * repeat` on. What is cut at one end is cut at all.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from refluid.ir.attributes import OpRole
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import find

Dimension = tuple[str, int]
Marks = dict[Dimension, set[int]]


@dataclass(frozen=True)
class End:
    """A dimension of a variable at a link."""

    var: str
    axis: int
    start: int = 0
    repeat: int = 1


@dataclass(frozen=True)
class Tie:
    """Dimensions that are one, of `size` indices; op is the operator that ties them."""

    op: Operator
    size: int
    ends: tuple[End, ...]


class CannotPrune(ValueError):
    """ChannelLinks reach an operator of which it isn't known what becomes of them."""


class ChannelLinks:
    """The links of a program's forward operators."""

    def __init__(self, program: Program) -> None:
        self._links: defaultdict[Dimension, list[Tie]] = defaultdict(list)
        self._readers: defaultdict[str, list[Operator]] = defaultdict(list)
        for op in program.global_block().ops:
            if op.role not in (OpRole.FORWARD, OpRole.LOSS):
                continue
            for link in links_of(op):
                for end in link.ends:
                    self._links[end.var, end.axis].append(link)
            for name in op.input_arg_names:
                self._readers[name].append(op)

    def with_those(self, var: str, axis: int, indices: Iterable[int]) -> Marks:
        """All that goes where these indices of a variable's axis go.

        Raises CannotPrune naming the operator where that isn't known.
        """
        marks: Marks = defaultdict(set)
        waiting: list[tuple[Dimension, set[int]]] = [((var, axis), set(indices))]
        while waiting:
            dimension, new = waiting.pop()
            new -= marks[dimension]
            if not new:
                continue
            marks[dimension] |= new
            links = self._links[dimension]
            self._require_known(dimension, links)
            for link in links:
                waiting += _spread(link, dimension, new)
        return dict(marks)

    def _require_known(self, dimension: Dimension, links: Sequence[Tie]) -> None:
        known = {id(link.op) for link in links}
        for op in self._readers[dimension[0]]:
            if id(op) not in known and not _reads_shape_only(op, dimension[0]):
                raise CannotPrune(
                    f"channels of {dimension[0]!r} reach operator {op.type}, of which it isn't "
                    f"known what becomes of them (made at {op.made_at}): leave the parameters "
                    "before it out of pruned_params"
                )


def _spread(
    link: Tie, dimension: Dimension, indices: set[int]
) -> Iterator[tuple[Dimension, set[int]]]:
    for end in link.ends:
        if (end.var, end.axis) != dimension:
            continue
        common = {(index - end.start) // end.repeat for index in indices if index >= end.start}
        common = {index for index in common if index < link.size}
        for other in link.ends:
            spread = {
                other.start + index * other.repeat + part
                for index in common
                for part in range(other.repeat)
            }
            yield (other.var, other.axis), spread


def _reads_shape_only(op: Operator, name: str) -> bool:
    definition = find(op.type)
    slots = [slot for slot in op.input_names if name in op.input(slot)]
    return definition is not None and all(slot in definition.shape_only for slot in slots)


# -- what operators tie ------------------------------------------------------------------------

Ties = Callable[[Operator], Iterator[Tie]]
_RULES: dict[str, Ties] = {}


def links_of(op: Operator) -> Iterator[Tie]:
    """The links of an operator; none where there is no rule for it."""
    rule = _RULES.get(op.type)
    return iter(()) if rule is None else rule(op)


def _for(*types: str) -> Callable[[Ties], Ties]:
    def keep(rule: Ties) -> Ties:
        _RULES.update(dict.fromkeys(types, rule))
        return rule

    return keep


def _shape(op: Operator, name: str) -> tuple[int, ...]:
    return tuple(op.block.var_recursive(name).shape)


def _link(op: Operator, size: int, *ends: tuple[Sequence[str], int]) -> Tie:
    """Of the first variables of slots, where these have any."""
    return Tie(op, size, tuple(End(names[0], axis) for names, axis in ends if names))


@_for(
    *("relu", "relu6", "leaky_relu", "prelu", "sigmoid", "tanh", "swish", "hard_swish", "exp"),
    *("hard_sigmoid", "elu", "brelu", "dropout", "scale", "cast", "assign", "pool2d", "pad2d"),
    *("bilinear_interp", "nearest_interp", "softmax", "clip", "square", "sqrt", "abs", "lrn"),
    *("fake_quantize_dequantize_moving_average_abs_max", "fake_quantize_moving_average_abs_max"),
    *("fake_quantize_range_abs_max", "fake_quantize_abs_max", "moving_average_abs_max_scale"),
)
def _same(op: Operator) -> Iterator[Tie]:
    given, made = op.input("X")[0], op.output("Out")[0]
    before, after = _shape(op, given), _shape(op, made)
    for axis in range(min(len(before), len(after))):
        if axis and before[axis] == after[axis] and (axis == 1 or before == after):
            yield _link(op, before[axis], ([given], axis), ([made], axis))
    if op.input_names and "Alpha" in op.input_names and op.attr("mode") == "channel":
        yield _link(op, before[1], ([given], 1), (op.input("Alpha"), 1))


@_for("sum")
def _sum(op: Operator) -> Iterator[Tie]:
    names = [*op.input("X"), *op.output("Out")]
    for axis, size in enumerate(_shape(op, names[0])):
        if axis:
            yield Tie(op, size, tuple(End(name, axis) for name in names))


@_for(*(f"elementwise_{kind}" for kind in ("add", "sub", "mul", "div", "max", "min")))
def _elementwise(op: Operator) -> Iterator[Tie]:
    x, y, out = op.input("X")[0], op.input("Y")[0], op.output("Out")[0]
    left, right = _shape(op, x), _shape(op, y)
    begin = op.attr("axis") if op.attr("axis") >= 0 else len(left) - len(right)
    for axis, size in enumerate(left):
        if not axis:
            continue
        ends = [End(x, axis), End(out, axis)]
        other = axis - begin
        if 0 <= other < len(right) and right[other] == size:
            ends.append(End(y, other))
        yield Tie(op, size, tuple(ends))


@_for("concat")
def _concat(op: Operator) -> Iterator[Tie]:
    names, out = op.input("X"), op.output("Out")[0]
    along = op.attr("axis") % len(_shape(op, out))
    start = 0
    for name in names:
        size = _shape(op, name)[along]
        yield Tie(op, size, (End(name, along), End(out, along, start)))
        start += size
    for axis, size in enumerate(_shape(op, out)):
        if axis and axis != along:
            yield Tie(op, size, tuple(End(name, axis) for name in [*names, out]))


@_for("conv2d", "depthwise_conv2d")
def _convolution(op: Operator) -> Iterator[Tie]:
    filters, given, made = op.input("Filter"), op.input("Input"), op.output("Output")
    count, columns = _shape(op, filters[0])[:2]
    if op.attr("groups") <= 1:
        yield _link(op, count, (filters, 0), (made, 1), (op.input("Bias"), 0))
        yield _link(op, columns, (filters, 1), (given, 1))
    elif columns == 1:
        channels = _shape(op, given[0])[1]
        ends = [End(filters[0], 0, 0, count // channels), End(made[0], 1, 0, count // channels)]
        yield Tie(op, channels, (*ends, End(given[0], 1)))


@_for("conv2d_transpose")
def _transposed(op: Operator) -> Iterator[Tie]:
    if op.attr("groups") > 1:
        return
    filters = op.input("Filter")
    count, columns = _shape(op, filters[0])[:2]
    yield _link(op, count, (filters, 0), (op.input("Input"), 1))
    yield _link(op, columns, (filters, 1), (op.output("Output"), 1))


@_for("batch_norm", "instance_norm", "affine_channel")
def _per_channel(op: Operator) -> Iterator[Tie]:
    given = op.input("X")
    made = op.output("Y") or op.output("Out")
    ends = [
        (op.input(slot), 0)
        for slot in ("Scale", "Bias", "Mean", "Variance")
        if slot in op.input_names
    ]
    yield _link(op, _shape(op, given[0])[1], (given, 1), (made, 1), *ends)


@_for("mul")
def _product(op: Operator) -> Iterator[Tie]:
    x, y, out = op.input("X")[0], op.input("Y")[0], op.output("Out")[0]
    begin, shape = op.attr("x_num_col_dims"), _shape(op, x)
    yield Tie(op, shape[begin], (End(x, begin), End(y, 0, 0, math.prod(shape[begin + 1 :]))))
    columns = _shape(op, y)
    yield Tie(op, columns[-1], (End(y, len(columns) - 1), End(out, len(_shape(op, out)) - 1)))
    for axis in range(1, begin):
        yield Tie(op, shape[axis], (End(x, axis), End(out, axis)))


@_for(
    "reshape", "reshape2", "flatten", "flatten2", "squeeze", "squeeze2", "unsqueeze", "unsqueeze2"
)
def _reshaped(op: Operator) -> Iterator[Tie]:
    """Dimensions that stay one, and those that go first into a larger one."""
    x, out = op.input("X")[0], op.output("Out")[0]
    before, after = _shape(op, x), _shape(op, out)
    if not before or not after or before[0] != after[0]:
        return
    for axis, size in enumerate(before):
        inside = math.prod(before[axis + 1 :])
        for other, whole in enumerate(after):
            if not axis or not other or math.prod(before[1:axis]) != math.prod(after[1:other]):
                continue
            behind = math.prod(after[other + 1 :])
            if size > 1 and whole % size == 0 and inside == whole // size * behind:
                yield Tie(op, size, (End(x, axis), End(out, other, 0, whole // size)))
                break


@_for("transpose", "transpose2")
def _permuted(op: Operator) -> Iterator[Tie]:
    x, out = op.input("X")[0], op.output("Out")[0]
    for axis, source in enumerate(op.attr("axis")):
        if source:
            yield Tie(op, _shape(op, x)[source], (End(x, source), End(out, axis)))


@_for("reduce_mean", "reduce_sum", "reduce_max")
def _reduced(op: Operator) -> Iterator[Tie]:
    x, out = op.input("X")[0], op.output("Out")[0]
    shape = _shape(op, x)
    gone = {axis % len(shape) for axis in op.attr("dim")}
    if op.attr("reduce_all"):
        return
    place = 0
    for axis, size in enumerate(shape):
        if axis and axis not in gone:
            yield Tie(op, size, (End(x, axis), End(out, place)))
        place += axis not in gone or bool(op.attr("keep_dim"))
