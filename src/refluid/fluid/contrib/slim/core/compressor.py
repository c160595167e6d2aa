"""`Compressor`: trains a model epoch by epoch while strategies make it smaller."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from refluid.core import names
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.fluid.contrib.slim.core.config import ConfigFactory
from refluid.fluid.contrib.slim.core.context import Context, Evaluate, Reader, sampled
from refluid.fluid.contrib.slim.core.strategy import Strategy
from refluid.fluid.contrib.slim.graph.executor import SlimGraphExecutor
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper, Nodes
from refluid.fluid.contrib.slim.graph.resizing import declare, shrunk
from refluid.fluid.contrib.slim.graph.values import load_values
from refluid.fluid.executor import scope_guard
from refluid.fluid.log_helper import get_logger
from refluid.ir.program import Program

__all__ = ["Compressor", "Context"]

_log = get_logger("refluid.slim", logging.INFO, "%(asctime)s-%(levelname)s: %(message)s")
_CONTEXT, _VALUES, _EVALUATED = "context", "persistables", "eval_model"


def cached_reader(
    reader: Reader,
    sampled_rate: float,
    cache_path: str,
    cached_id: int,
) -> Reader:
    """A reader of that share of another's batches, the same ones for each `cached_id`.

    Fluid kept them in files below `cache_path`; they are read again instead.
    """
    return sampled(reader, sampled_rate, cached_id)


class Compressor:
    """Trains `train_program` as `config` says, and calls the strategies.

    place, scope: where. train_program: with the loss, without gradients if `train_optimizer` is
    given, else with its updates. eval_program: with what evaluation fetches; parameters have the
    same names in both. Readers give batches, lists of samples in the order of the feed lists; a
    feed list None is of a program that reads its batches itself, by the DataLoader given as reader.
    Feed and fetch lists are (title, name of a variable); the loss of training is titled "loss".
    eval_func: title -> function of (program, scope) instead. teacher_programs share the scope.
    checkpoint_path: a folder that gets a folder for each epoch; the newest is gone on from.
    prune_infer_model: names of what is fed and fetched of an inference model to save beside it.
    log_period: batches between two lines of the log.
    """

    def __init__(
        self,
        place: Place,
        scope: Scope,
        train_program: Program,
        train_reader: Reader | None = None,
        train_feed_list: Nodes | None = None,
        train_fetch_list: Nodes | None = None,
        eval_program: Program | None = None,
        eval_reader: Reader | None = None,
        eval_feed_list: Nodes | None = None,
        eval_fetch_list: Nodes | None = None,
        eval_func: Mapping[str, Evaluate] | None = None,
        save_eval_model: bool = True,
        prune_infer_model: Sequence[Sequence[str]] | None = None,
        teacher_programs: Iterable[Program] = [],
        checkpoint_path: str | None = None,
        train_optimizer: Any = None,
        distiller_optimizer: Any = None,
        search_space: Any = None,
        log_period: int = 20,
    ) -> None:
        assert train_feed_list is None or isinstance(train_feed_list, list)
        assert eval_feed_list is None or isinstance(eval_feed_list, list)
        self.place, self.scope = place, scope
        train = GraphWrapper(train_program, train_feed_list or (), train_fetch_list or ())
        evaluated = None
        if eval_program is not None:
            evaluated = GraphWrapper(eval_program, eval_feed_list or (), eval_fetch_list or ())
        self.context = Context(
            place,
            scope,
            train,
            train_reader,
            evaluated,
            eval_reader,
            [GraphWrapper(one) for one in teacher_programs],
            train_optimizer,
            distiller_optimizer,
            search_space,
        )
        self.context.eval_func = eval_func
        self.save_eval_model, self.prune_infer_model = save_eval_model, prune_infer_model
        self.checkpoint_path, self.log_period = checkpoint_path, log_period
        self.init_model: str | None = None
        self.strategies: list[Strategy] = []
        self.epoch, self.eval_epoch = 0, 1
        self._executor = SlimGraphExecutor(place)

    def config(self, config_file: str) -> None:
        """Takes epochs and strategies from a YAML file: see `ConfigFactory`."""
        given = ConfigFactory(config_file).compressor
        self.epoch = int(given.get("epoch", self.epoch))
        self.eval_epoch = int(given.get("eval_epoch", self.eval_epoch))
        self.checkpoint_path = given.get("checkpoint_path", self.checkpoint_path)
        self.init_model = given.get("init_model", self.init_model)
        self.strategies += given["strategies"]
        ends = (strategy.end_epoch for strategy in self.strategies)
        self.epoch = max([self.epoch, *ends])

    def run(self) -> GraphWrapper | None:
        """Trains all epochs; the graph that is evaluated, at the end."""
        context = self.context
        with scope_guard(self.scope):
            self._begin()
            for epoch in range(context.epoch_id, self.epoch):
                context.epoch_id, context.skip_training = epoch, False
                self._tell("on_epoch_begin")
                if not context.skip_training:
                    self._train()
                self._tell("on_epoch_end")
                if context.eval_graph is not None and not (epoch + 1) % self.eval_epoch:
                    self._evaluate()
                self._save()
            self._tell("on_compression_end")
        return context.eval_graph

    def _begin(self) -> None:
        context = self.context
        context.epoch = self.epoch
        if context.train_optimizer is None:
            context.optimize_graph = context.train_graph
        else:
            assert context.train_graph is not None
            with names.guard():  # so that a later run finds its state by the same names
                context.optimize_graph = context.train_graph.get_optimize_graph(
                    context.train_optimizer, self.place, self.scope
                )
        if self.init_model:
            if not Path(self.init_model).is_dir():
                raise ValueError(f"init_model: there is no folder {self.init_model}")
            self._load(self.init_model)
        context.changed()
        self._tell("on_compression_begin")
        newest = self._newest()
        if newest is not None:
            context.from_file(str(newest / _CONTEXT))
            context.epoch_id += 1
            self._load(str(newest / _VALUES))
            _log.info("goes on from %s", newest)
            self._tell("restore_from_checkpoint")

    def _tell(self, event: str) -> None:
        for strategy in self.strategies:
            getattr(strategy, event)(self.context)

    # -- an epoch -------------------------------------------------------------

    def _train(self) -> None:
        context = self.context
        assert context.optimize_graph is not None
        titles = list(context.optimize_graph.out_nodes)
        start = time.perf_counter()
        for number, results in enumerate(self._steps()):
            if not number % self.log_period:
                means = (float(np.mean(one)) for one in results)
                shown = "; ".join(f"{t}: {v:.6g}" for t, v in zip(titles, means, strict=True))
                seconds, start = time.perf_counter() - start, time.perf_counter()
                _log.info(
                    "epoch:%d; batch_id:%d; %s; %.2f s", context.epoch_id, number, shown, seconds
                )

    def _steps(self) -> Iterator[Any]:
        context = self.context
        graph = context.optimize_graph
        assert graph is not None and context.train_reader is not None, "there is no train_reader"
        if not graph.in_nodes:
            for number, results in enumerate(context.reading(graph, context.train_reader)):
                context.batch_id = number
                yield results
            return
        for number, data in enumerate(context.train_reader()):
            context.batch_id = number
            self._tell("on_batch_begin")
            yield self._executor.run(context.optimize_graph or graph, self.scope, data)
            self._tell("on_batch_end")

    def _evaluate(self) -> None:
        context = self.context
        results, titles = context.run_eval_graph()
        for title, value in zip(titles, results, strict=True):
            context.eval_results[title].append(value)
        shown = "; ".join(f"{t}: {v:.6g}" for t, v in zip(titles, results, strict=True))
        _log.info("epoch:%d; evaluated: %s", context.epoch_id, shown)

    # -- checkpoints ----------------------------------------------------------

    def _newest(self) -> Path | None:
        if self.checkpoint_path is None or not Path(self.checkpoint_path).is_dir():
            return None
        found = [
            one
            for one in Path(self.checkpoint_path).iterdir()
            if one.name.isdigit() and (one / _CONTEXT).is_file()
        ]
        return max(found, key=lambda one: int(one.name), default=None)

    def _load(self, folder: str) -> None:
        graphs = self.context.graphs()
        kept = {name for graph in graphs for name in graph.persistables()}
        shapes = load_values(folder, kept, self.scope, self.place)
        for graph in graphs:
            declare(graph, shrunk(graph, shapes))
            own = set(graph.persistables())
            graph.resize({name: shape for name, shape in shapes.items() if name in own})
        self.context.changed()

    def _save(self) -> None:
        """The context is written last: a folder without one is none to go on from."""
        if self.checkpoint_path is None:
            return
        context = self.context
        folder = Path(self.checkpoint_path) / str(context.epoch_id)
        folder.mkdir(parents=True, exist_ok=True)
        assert context.optimize_graph is not None
        context.optimize_graph.save_persistables(str(folder / _VALUES), self._executor)
        if context.eval_graph is not None and self.save_eval_model:
            where = str(folder / _EVALUATED)
            context.eval_graph.save_model(where, self._executor)
            if self.prune_infer_model is not None:
                context.eval_graph.save_infer_model(
                    where, self._executor, self.prune_infer_model, program_only=True
                )
        context.to_file(str(folder / _CONTEXT))
