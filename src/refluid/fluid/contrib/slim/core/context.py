"""`Context`: what strategies see of a compression, and may change."""

from __future__ import annotations

import json
import logging
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core.errors import EOFException
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.core.writing import write_whole
from refluid.fluid.contrib.slim.graph.executor import SlimGraphExecutor
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper

_log = logging.getLogger("refluid.slim")
Reader = Callable[[], Iterator[Any]]
Evaluate = Callable[[Any, Scope], Any]


class Context:
    """The graphs, the scope and place where they run, the epoch, and what evaluations gave.

    optimize_graph: what trains; None until the Compressor has made it. eval_results: for each
    title the values so far, one for each evaluated epoch. skip_training: the next epoch trains
    nothing. What strategies `put` is theirs.
    """

    def __init__(
        self,
        place: Place,
        scope: Scope,
        train_graph: GraphWrapper | None = None,
        train_reader: Reader | None = None,
        eval_graph: GraphWrapper | None = None,
        eval_reader: Reader | None = None,
        teacher_graphs: Sequence[GraphWrapper] | None = None,
        train_optimizer: Any = None,
        distiller_optimizer: Any = None,
        search_space: Any = None,
    ) -> None:
        self.place, self.scope = place, scope
        self.train_graph, self.train_reader = train_graph, train_reader
        self.eval_graph, self.eval_reader = eval_graph, eval_reader
        self.teacher_graphs = list(teacher_graphs or [])
        self.train_optimizer, self.distiller_optimizer = train_optimizer, distiller_optimizer
        self.search_space = search_space
        self.optimize_graph: GraphWrapper | None = None
        self.eval_func: Mapping[str, Evaluate] | None = None
        self.epoch = self.epoch_id = self.batch_id = 0
        self.eval_results: defaultdict[str, list[float]] = defaultdict(list)
        self.skip_training = False
        self.k_v: dict[str, Any] = {}
        self._executor = SlimGraphExecutor(place)

    def put(self, key: str, value: Any) -> None:
        """Keeps something for strategies."""
        self.k_v[key] = value

    def get(self, key: str) -> Any:
        """What was kept by that key; None where nothing was."""
        return self.k_v.get(key)

    # -- graphs ---------------------------------------------------------------

    def graphs(self) -> list[GraphWrapper]:
        """All graphs of the model itself, each once."""
        found: list[GraphWrapper] = []
        for graph in (self.optimize_graph, self.train_graph, self.eval_graph):
            if graph is not None and all(graph.program is not one.program for one in found):
                found.append(graph)
        return found

    def changed(self) -> None:
        """To be called once graphs were changed: they are compiled anew."""
        if self.optimize_graph is not None:
            self.optimize_graph.compile()
        if self.eval_graph is not None:
            self.eval_graph.compile(for_parallel=False, for_test=True)

    def snapshot(self) -> Any:
        """The graphs, and the values of what outlives a step, as they are now."""
        kept = {
            var.name()
            for graph in self.graphs()
            for var in graph.vars()
            if graph.is_persistable(var)
        }
        cells = ((name, self.scope.find_var(name)) for name in sorted(kept))
        values = {
            name: np.array(cell.get_tensor())
            for name, cell in cells
            if cell is not None and cell.get_tensor()._is_initialized()
        }
        named = ("optimize_graph", "train_graph", "eval_graph")
        graphs = {name: getattr(self, name) for name in named}
        return {name: one and one.clone() for name, one in graphs.items()}, values

    def restore(self, taken: Any) -> None:
        """Makes graphs and values what they were at a snapshot."""
        graphs, values = taken
        for name, graph in graphs.items():
            setattr(self, name, graph)
        for name, value in values.items():
            self.scope.var(name).get_tensor().set(value, self.place)
        self.changed()

    # -- evaluation -----------------------------------------------------------

    def run_eval_graph(
        self, sampled_rate: float | None = None, cached_id: int = 0
    ) -> tuple[list[float], list[str]]:
        """The means over the evaluation's batches of what it fetches, and their titles.

        sampled_rate: share of the batches, chosen at random but the same for one `cached_id`.
        """
        assert self.eval_graph is not None, "there is no eval_program"
        if self.eval_func is not None:
            titles = list(self.eval_func)
            found = [call(self.eval_graph.program, self.scope) for call in self.eval_func.values()]
            return [float(np.mean(one)) for one in found], titles
        rows: list[list[float]] = []
        for results in self._batches(self.eval_graph, sampled_rate, cached_id):
            rows.append([float(np.mean(one)) for one in results])
        if not rows:
            raise ValueError("eval_reader gave no batch")
        return [float(one) for one in np.mean(rows, 0)], list(self.eval_graph.out_nodes)

    def _batches(self, graph: GraphWrapper, rate: float | None, seed: int) -> Iterator[Any]:
        if self.eval_reader is None or not graph.in_nodes:
            yield from self.reading(graph, self.eval_reader)
            return
        reader = self.eval_reader if rate is None else sampled(self.eval_reader, rate, seed)
        for data in reader():
            yield self._executor.run(graph, self.scope, data)

    def reading(self, graph: GraphWrapper, loader: Any) -> Iterator[Any]:
        """Steps of a graph that reads its batches itself, by a loader that is started."""
        loader.start()
        try:
            while True:
                yield self._executor.run(graph, self.scope)
        except EOFException:
            loader.reset()

    def eval_converged(self, metric_name: str, delta: float = 0.001) -> bool:
        """Whether the latest two evaluations differ by less than `delta`."""
        values = self.eval_results.get(metric_name, [])
        return len(values) > 1 and abs(values[-1] - values[-2]) < delta

    # -- files ----------------------------------------------------------------

    def to_file(self, file_name: str) -> None:
        """Writes the epoch and what evaluations gave, as JSON."""
        content = {"epoch_id": self.epoch_id, "eval_results": dict(self.eval_results)}
        write_whole(file_name, json.dumps(content, indent=1))

    def from_file(self, file_name: str) -> None:
        """Takes what `to_file` wrote; ValueError for other files."""
        try:
            content = json.loads(Path(file_name).read_text())
            self.epoch_id = int(content["epoch_id"])
            self.eval_results = defaultdict(list, content["eval_results"])
        except (ValueError, KeyError, TypeError, UnicodeDecodeError):
            raise ValueError(f"{file_name} is no checkpoint of a Compressor") from None


def sampled(reader: Reader, rate: float, seed: int) -> Reader:
    """A reader of that share of another's batches, the same for each seed; at least the first."""
    if not 0 < rate <= 1:
        raise ValueError(f"the share of batches is from 0 to 1, not {rate}")

    def batches() -> Iterator[Any]:
        draws = np.random.default_rng(seed)
        for number, batch in enumerate(reader()):
            if draws.random() < rate or not number:
                yield batch

    return batches
