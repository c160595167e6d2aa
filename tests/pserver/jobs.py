"""Jobs for tests: servers and trainers of DistributeTranspiler, in threads of one process."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from traceback import format_exception
from typing import Any

import refluid.fluid as fluid
from refluid.core.ports import free_endpoints

Built = tuple[Any, Any, Any]


@dataclass
class Trainer:
    """One trainer's programs, scope and executor."""

    number: int
    main: Any
    startup: Any
    loss: Any
    scope: Any
    executor: Any
    transpiler: Any

    def begin(self) -> None:
        self.executor.run(self.startup, scope=self.scope)

    def step(self, feed: Any, fetches: Sequence[Any] = ()) -> list[Any]:
        found: list[Any] = self.executor.run(
            self.main, feed=feed, fetch_list=list(fetches), scope=self.scope
        )
        return found

    def value(self, name: str) -> Any:
        import numpy as np

        return np.array(self.scope.find_var(name).get_tensor())


class Job:
    """Servers that run in threads, and trainers for the caller to run.

    build: makes (main, startup, loss) with an optimizer. config: fields of the transpiler's.
    """

    def __init__(
        self, build: Callable[[], Built], servers: int, trainers: int, sync: bool, **config: Any
    ) -> None:
        addresses = free_endpoints(servers)
        settings = fluid.DistributeTranspilerConfig()
        for name, value in config.items():
            setattr(settings, name, value)
        made = []
        for number in range(trainers):
            main, startup, loss = build()
            transpiler = fluid.DistributeTranspiler(settings)
            transpiler.transpile(
                number,
                program=main,
                pservers=",".join(addresses),
                trainers=trainers,
                sync_mode=sync,
                startup_program=startup,
            )
            main = transpiler.get_trainer_program()
            own = fluid.Scope(), fluid.Executor(), transpiler
            made.append(Trainer(number, main, startup, loss, *own))
        self.trainers = made
        self.errors: list[BaseException] = []
        self._threads = [threading.Thread(target=self._serve, args=(one,)) for one in addresses]
        for thread in self._threads:
            thread.start()

    def _serve(self, address: str) -> None:
        try:
            transpiler = self.trainers[0].transpiler
            program = transpiler.get_pserver_program(address)
            scope, executor = fluid.Scope(), fluid.Executor()
            executor.run(transpiler.get_startup_program(address, program), scope=scope)
            executor.run(program, scope=scope)
        except BaseException as error:
            self.errors.append(error)

    def run(self, train: Callable[[Trainer], Any]) -> list[Any]:
        """What `train` returns for each trainer, all at the same time; servers have ended then."""
        results: list[Any] = [None] * len(self.trainers)

        def work(trainer: Trainer) -> None:
            try:
                trainer.begin()
                results[trainer.number] = train(trainer)
            except BaseException as error:
                self.errors.append(error)
            finally:
                trainer.executor.close()

        threads = [threading.Thread(target=work, args=(one,)) for one in self.trainers]
        for thread in threads:
            thread.start()
        for thread in (*threads, *self._threads):
            thread.join(60)
            assert not thread.is_alive(), [*map(format_exception, self.errors)]
        if self.errors:
            raise self.errors[0]
        return results
