"""Servers for tests: a program with one table and one dense parameter, split, served in threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import refluid.fluid as fluid
from refluid.pserver.layout import TrainingMode
from refluid.pserver.server_making import table_server
from refluid.pserver.service import Service
from refluid.pserver.split import Split, SplitOptions, split
from refluid.pserver.table_client import TableClient
from refluid.pserver.table_server import TableServer


def network(
    optimizer: Any = None, width: int = 4, initializer: Any = None, *, train: bool = True
) -> Any:
    """Programs of a table `emb` of any ids, and of a dense `w` [3, 1]: their gradients are fed."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        zero = fluid.initializer.Constant(0.0)
        ids = fluid.data("ids", [None, 1], "int64")
        x = fluid.data("x", [None, 3], "float32")
        rows = fluid.layers.embedding(
            ids,
            [1000, width],
            is_sparse=True,
            is_distributed=True,
            param_attr=fluid.ParamAttr(name="emb", initializer=initializer or zero),
        )
        out = fluid.layers.fc(
            x,
            1,
            param_attr=fluid.ParamAttr(name="w", initializer=zero),
            bias_attr=False,
        )
        loss = fluid.layers.reduce_sum(rows) + fluid.layers.reduce_sum(out)
        if train:
            (optimizer or fluid.optimizer.SGD(1.0)).minimize(loss)
    return main, startup, loss


def divided(
    servers: int = 1, trainers: int = 1, mode: TrainingMode = TrainingMode.ASYNC, **options: Any
) -> Split:
    """The network split for servers that have no addresses yet."""
    main, startup, _ = network(**options)
    names = [f"127.0.0.1:{number}" for number in range(servers)]
    return split(main, startup, names, trainers, 0, mode, SplitOptions(least=1))


class Cluster:
    """Servers of a split program, each behind a port. making: how one makes its tables."""

    def __init__(self, parts: Split, making: Any = None, **options: Any) -> None:
        self.split, self.making, self.options = parts, making or (lambda _number: None), options
        self.servers: list[TableServer] = []
        self.services: list[Service] = []
        for number in range(len(parts.layout.servers)):
            server = self.made(number)
            self.servers.append(server)
            self.services.append(self.listening(server))

    def made(self, number: int) -> TableServer:
        """A server as it begins."""
        parts, scope = self.split, fluid.Scope()
        name = parts.layout.servers[number]
        fluid.Executor().run(parts.startup(name), scope=scope)
        return table_server(parts.program(name), parts.layout, scope, self.making(number))

    def restarted(self, number: int = 0) -> TableServer:
        """A new server in the place of one, at the same address."""
        address = self.services[number].address
        self.services[number].stop(0.0)
        made = self.servers[number] = self.made(number)
        self.services[number] = self.listening(made, address)
        return made

    def listening(self, server: TableServer, address: str = "127.0.0.1:0") -> Service:
        """A server behind a port."""
        service = Service(server, address, **self.options)
        service.start()
        return service

    def client(self, trainer: int = 0, **options: Any) -> TableClient:
        """A trainer that has entered."""
        addresses = tuple(one.address for one in self.services)
        made = TableClient(self.split.layout, trainer, **options)
        made.servers.close()
        made.servers = type(made.servers)(
            addresses, options.get("patience", 20.0), one_try=2.0, enter=made._enter_one
        )
        made.enter()
        return made


@contextmanager
def cluster(parts: Split, making: Any = None, **options: Any) -> Iterator[Cluster]:
    """Servers that end with the block."""
    made = Cluster(parts, making, **options)
    try:
        yield made
    finally:
        for service in made.services:
            service.stop(0.0)


def at_once(*calls: Any) -> list[Any]:
    """What functions return that are called by threads at the same time; the first error."""
    found: list[Any] = [None] * len(calls)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            found[number] = calls[number]()
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    if errors:
        raise errors[0]
    return found
