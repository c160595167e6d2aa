"""Cuts channels out of graphs and of the values of their parameters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper, OpWrapper
from refluid.fluid.contrib.slim.prune.channels import ChannelLinks, Marks
from refluid.fluid.contrib.slim.prune.pruner import StructurePruner

Ratios = Mapping[str, float]
# Inputs of operators that update parameters, whose elements are not those of the parameter.
_NOT_STATE = {"Param", "Grad", "LearningRate", "MasterParam"}


def prunable(graph: GraphWrapper, pattern: str) -> list[str]:
    """Names of the parameters that a regular expression matches; ValueError where none does."""
    names = [var.name() for var in graph.all_parameters()]
    found = [name for name in names if re.fullmatch(pattern, name)]
    if not found:
        raise ValueError(
            f"pruned_params {pattern!r} matches no parameter; there are {names[:5]}..."
        )
    return found


def choose(graph: GraphWrapper, pruner: StructurePruner, ratios: Ratios, scope: Scope) -> Marks:
    """What goes where that share of each parameter's filters goes, with all that belongs to them.

    A parameter that was cut already, since its channels are those of an earlier one, follows it.
    """
    channels = ChannelLinks(graph.program)
    marks: Marks = defaultdict(set)
    for name, ratio in ratios.items():
        axis = pruner.axis_of(name)
        if marks.get((name, axis)) or ratio <= 0:
            continue
        value = np.array(scope.var(name).get_tensor())
        indices = pruner.cal_pruned_idx(name, value, ratio, axis)
        for dimension, gone in channels.with_those(name, axis, map(int, indices)).items():
            marks[dimension] |= gone
    return dict(marks)


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
    state = _state(graph)
    for op in graph.ops():
        if op.type() in ("reshape", "reshape2"):
            _reshape_smaller(op, marks)
    left = _left(graph, marks)
    graph.resize({one: left[name] for name in left for one in (name, *state.get(name, ()))})


def cut_values(
    graphs: Sequence[GraphWrapper],
    marks: Marks,
    pruner: StructurePruner,
    scope: Scope,
    place: Place,
    *,
    lazy: bool = False,
) -> dict[str, Any]:
    """Cuts the values in the scope, those that optimizers keep too; lazy: sets them to 0.

    Returns the former values by name.
    """
    names = _kept(graphs)
    former: dict[str, Any] = {}
    state: defaultdict[str, set[str]] = defaultdict(set)
    for graph in graphs:
        for param, kept in _state(graph).items():
            state[param] |= set(kept)
    for name, axes in _by_name(marks).items():
        for one in (name, *sorted(state[name])) if name in names else ():
            cell = scope.find_var(one)
            if cell is None or not cell.get_tensor()._is_initialized():
                continue
            value = former[one] = np.array(cell.get_tensor())
            for axis, indices in axes.items():
                value = pruner.prune_tensor(value, sorted(indices), axis, lazy)
            cell.get_tensor().set(value, place)
    return former


def put_back(former: Mapping[str, Any], scope: Scope, place: Place) -> None:
    """Sets values in the scope as they were."""
    for name, value in former.items():
        scope.var(name).get_tensor().set(value, place)


def _kept(graphs: Iterable[GraphWrapper]) -> set[str]:
    return {name for graph in graphs for name in graph.persistables()}


def _by_name(marks: Marks) -> dict[str, dict[int, set[int]]]:
    found: defaultdict[str, dict[int, set[int]]] = defaultdict(dict)
    for (name, axis), indices in marks.items():
        found[name][axis] = indices
    return found


def _left(graph: GraphWrapper, marks: Marks) -> dict[str, tuple[int, ...]]:
    """The shapes of persistable variables without what goes."""
    found = {}
    names = {var.name(): var for var in graph.vars() if graph.is_persistable(var)}
    for name, axes in _by_name(marks).items():
        if name in names:
            shape = list(names[name].shape())
            for axis, indices in axes.items():
                shape[axis] -= len(indices)
            if min(shape) <= 0:
                raise ValueError(f"nothing would be left of {name!r}: prune less of it")
            found[name] = tuple(shape)
    return found


def _state(graph: GraphWrapper) -> dict[str, list[str]]:
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
