"""Cuts channels out of graphs and of the values of their parameters."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.graph.channels import ChannelLinks, Marks
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper
from refluid.fluid.contrib.slim.graph.resizing import by_name, state_of
from refluid.fluid.contrib.slim.prune.pruner import StructurePruner

Ratios = Mapping[str, float]


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
        for param, kept in state_of(graph).items():
            state[param] |= set(kept)
    for name, axes in by_name(marks).items():
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
