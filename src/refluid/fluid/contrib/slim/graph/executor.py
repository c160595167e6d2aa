"""`SlimGraphExecutor`: runs a graph on a list of samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper
from refluid.fluid.data_feeder import DataFeeder
from refluid.fluid.executor import Executor

__all__ = ["SlimGraphExecutor"]


class SlimGraphExecutor:
    """Runs graphs on one place."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.exe = Executor(place)

    def run(self, graph: GraphWrapper, scope: Scope, data: Any = None) -> list[Any]:
        """What the graph's `out_nodes` are.

        data: samples, each a tuple in the order of `in_nodes`; or a dict by variable name; None
        where the program reads its batches itself. EOFException at the end of those.
        """
        feed = None
        if isinstance(data, Mapping):
            feed = dict(data)
        elif data is not None:
            feed = self._feed(graph, data)
        fetches = list(graph.out_nodes.values())
        program = graph.compiled_graph or graph.program
        return list(self.exe.run(program, feed=feed, fetch_list=fetches, scope=scope))

    def _feed(self, graph: GraphWrapper, data: Sequence[Any]) -> dict[str, Any]:
        names = list(graph.in_nodes.values())
        feeder = DataFeeder(names, self.place, graph.program)
        return dict(feeder.feed([tuple(sample[: len(names)]) for sample in data]))
