"""`LightNASStrategy`: trains networks of a search space that a controller proposes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from refluid.fluid.contrib.slim.core.strategy import Strategy
from refluid.fluid.contrib.slim.graph.graph_wrapper import GraphWrapper
from refluid.fluid.contrib.slim.nas.controller_server import ControllerServer
from refluid.fluid.contrib.slim.nas.lock import lock, unlock
from refluid.fluid.contrib.slim.nas.search_agent import SearchAgent
from refluid.fluid.executor import Executor

__all__ = ["LightNASStrategy"]

_log = logging.getLogger("refluid.slim")
# Of the processes of a machine the first serves; the file says that one does.
_SERVES = "./slim_LightNASStrategy_controller_server.socket"


class LightNASStrategy(Strategy):
    """Until `end_epoch` trains a network for `retrain_epoch` epochs, evaluates it, takes the next.

    target_flops: operations that no network exceeds (0: any number); target_latency: the same for
    the search space's `get_model_latency`. is_server: whether this process may serve the
    controller, which the first of a machine does; else `server_ip` and `server_port` say where
    it is. search_steps: networks that the server hands out.
    """

    def __init__(
        self,
        controller: Any = None,
        end_epoch: int = 1000,
        target_flops: int = 629145600,
        target_latency: float = 0,
        retrain_epoch: int = 1,
        metric_name: str = "top1_acc",
        server_ip: str | None = None,
        server_port: int = 0,
        is_server: bool = False,
        max_client_num: int = 100,
        search_steps: int | None = None,
        key: str = "light-nas",
    ) -> None:
        super().__init__(0, end_epoch)
        self.controller, self.metric_name = controller, metric_name
        self.target_flops, self.target_latency = target_flops, target_latency
        self.retrain_epoch, self.is_server = retrain_epoch, is_server
        self._address, self._clients = (server_ip or "", server_port), max_client_num
        self._steps, self._key = search_steps, key
        self._server: ControllerServer | None = None
        self._agent: SearchAgent | None = None
        self._tokens: list[int] = []

    def on_compression_begin(self, context: Any) -> None:
        space = context.search_space
        if space is None or self.controller is None:
            raise ValueError(
                "LightNASStrategy needs a controller, and the Compressor a search_space"
            )
        self._tokens = list(space.init_tokens())
        self.controller.reset(
            space.range_table(), self._tokens, lambda one: self._allows(space, one)
        )
        port = self._address[1]
        if self.is_server:
            port = self._serve() or port
        self._agent = SearchAgent(self._address[0] or "127.0.0.1", port, self._key)

    def on_epoch_begin(self, context: Any) -> None:
        if context.epoch_id < self.end_epoch and not context.epoch_id % self.retrain_epoch:
            if context.epoch_id:
                assert self._agent is not None
                self._tokens = self._agent.next_tokens()
            self._take(context, self._tokens)

    def on_epoch_end(self, context: Any) -> None:
        if context.epoch_id >= self.end_epoch or (context.epoch_id + 1) % self.retrain_epoch:
            return
        results, titles = context.run_eval_graph()
        reward = float(results[list(titles).index(self.metric_name)])
        _log.info("%.4f by %s", reward, self._tokens)
        assert self._agent is not None
        self._agent.update(self._tokens, reward)

    def on_compression_end(self, context: Any) -> None:
        _log.info(
            "the best network, of %s: %s", self.controller.max_reward, self.controller.best_tokens
        )
        if self._server is not None:
            self._server.close()
            Path(_SERVES).unlink(missing_ok=True)

    def _serve(self) -> int | None:
        """The port of the server of this machine, which this process becomes where none is."""
        file = Path(_SERVES)
        with file.open("a+") as shared:
            lock(shared)
            try:
                shared.seek(0)
                text = shared.read().strip()
                if text:
                    return int(text)
                self._server = ControllerServer(
                    self.controller, self._address, self._clients, self._steps, self._key
                )
                self._server.start()
                shared.write(str(self._server.port()))
                shared.flush()
                return self._server.port()
            finally:
                unlock(shared)

    def _allows(self, space: Any, tokens: Sequence[int]) -> bool:
        program = space.create_net(list(tokens))[2]
        if self.target_flops > 0 and GraphWrapper(program).flops() > self.target_flops:
            return False
        return self.target_latency <= 0 or space.get_model_latency(program) <= self.target_latency

    def _take(self, context: Any, tokens: list[int]) -> None:
        """Makes the context's graphs those of a network, with parameters of its own."""
        made = context.search_space.create_net(tokens)
        startup, train, test, trained, tested, context.train_reader, context.eval_reader = made
        Executor(context.place).run(startup)
        context.train_graph = _like(context.train_graph, train, trained)
        context.eval_graph = _like(context.eval_graph, test, tested)
        context.optimize_graph = context.train_graph
        if context.train_optimizer is not None:
            context.optimize_graph = context.train_graph.get_optimize_graph(
                context.train_optimizer, context.place, context.scope
            )
        context.changed()


def _like(graph: GraphWrapper, program: Any, fetched: Sequence[Any]) -> GraphWrapper:
    """Another program with the same titles: of the same variables, as networks are named alike.

    Where it lacks one of them, of those that are fetched, in their order.
    """
    names = dict(graph.out_nodes)
    if not all(program.global_block().has_var(name) for name in names.values()):
        names = {title: var.name for title, var in zip(names, fetched, strict=False)}
    return GraphWrapper(program, graph.in_nodes, names)
