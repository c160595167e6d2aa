"""Graphs whose parameters have fewer channels."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from refluid.fluid.contrib.slim.graph.channels import ChannelLinks, Marks
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper, OpWrapper

# Inputs of operators that update parameters, whose elements are not those of the parameter.
_NOT_STATE = {"Param", "Grad", "LearningRate", "MasterParam"}


def shrunk(graph: GraphWrapper, shapes: Mapping[str, Sequence[int]]) -> Marks:
    """How many channels are gone where parameters have smaller shapes; not which."""
    channels = ChannelLinks(graph.program)
    marks: Marks = defaultdict(set)
    for var in graph.all_parameters():
        for axis, (size, left) in enumerate(
            zip(var.shape(), shapes.get(var.name(), var.shape()), strict=True)
        ):
            if left < size and not marks.get((var.name(), axis)):
                gone = channels.with_those(var.name(), axis, range(size - left))
                for dimension, indices in gone.items():
                    marks[dimension] |= indices
    return dict(marks)


def declare(graph: GraphWrapper, marks: Marks) -> None:
    """Gives the graph's parameters, what optimizers keep for them, and all results the shapes
    that are left."""
    state = state_of(graph)
    for op in graph.ops():
        if op.type() in ("reshape", "reshape2"):
            _reshape_smaller(op, marks)
    left = _left(graph, marks)
    graph.resize({one: left[name] for name in left for one in (name, *state.get(name, ()))})


def by_name(marks: Marks) -> dict[str, dict[int, set[int]]]:
    found: defaultdict[str, dict[int, set[int]]] = defaultdict(dict)
    for (name, axis), indices in marks.items():
        found[name][axis] = indices
    return found


def _left(graph: GraphWrapper, marks: Marks) -> dict[str, tuple[int, ...]]:
    """The shapes of persistable variables without what goes."""
    found = {}
    names = {var.name(): var for var in graph.vars() if graph.is_persistable(var)}
    for name, axes in by_name(marks).items():
        if name in names:
            shape = list(names[name].shape())
            for axis, indices in axes.items():
                shape[axis] -= len(indices)
            if min(shape) <= 0:
                raise ValueError(f"nothing would be left of {name!r}: prune less of it")
            found[name] = tuple(shape)
    return found


def state_of(graph: GraphWrapper) -> dict[str, list[str]]:
    """What optimizers keep for each parameter, element by element."""
    found: dict[str, list[str]] = {}
    for op in graph.ops():
        if not op.is_opt_op() or not op.op.input("Param"):
            continue
        param = op.inputs("Param")[0]
        others = [
            var for slot in op.op.input_names if slot not in _NOT_STATE for var in op.inputs(slot)
        ]
        found[param.name()] = [var.name() for var in others if var.shape() == param.shape()]
    return found


def _reshape_smaller(op: OpWrapper, marks: Marks) -> None:
    """Numbers in a reshape's attribute that count channels."""
    name, shape = op.op.output("Out")[0], list(op.attr("shape"))
    for axis, size in enumerate(shape):
        gone = marks.get((name, axis))
        if gone and size > 0:
            shape[axis] = size - len(gone)
    if shape != list(op.attr("shape")):
        op.set_attr("shape", shape)
