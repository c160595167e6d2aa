"""What each trainer of a test does that saves checkpoints and goes on from them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.collective.job import job_of_environment
from refluid.collective.saving import folders
from refluid.collective.saving.checkpoints import Checkpointing
from refluid.core.random import set_states
from tests.collective.compiled_cases import REDUCE
from tests.collective.networks import parameters
from tests.collective.resuming_fleets import FLEETS, fleet_network

EPOCHS, BATCHES = 2, 4
KINDS: dict[str, dict[str, Any]] = {
    "a loader": {},
    "a reader": {"use_hierarchical_allreduce": True},
    "a reader of the program": REDUCE,
    "compressed": {},
}


def network(compressed: bool = False) -> Any:
    """With dropout, batch norm, a schedule and moments; the loss.

    compressed: of a gradient each trainer passes on a part, and keeps what waits.
    """
    x = fluid.data("x", [None, 6], "float32")
    y = fluid.data("y", [None, 1], "float32")
    width = 3000 if compressed else 8
    hidden = fluid.layers.batch_norm(fluid.layers.fc(x, width, act="tanh"))
    out = fluid.layers.fc(fluid.layers.dropout(hidden, 0.3), 1)
    loss = fluid.layers.reduce_mean(fluid.layers.square_error_cost(out, y))
    begin = 1e-4 if compressed else 0.05
    rate = fluid.layers.exponential_decay(begin, 2, 0.8, staircase=True)
    if compressed:
        fluid.optimizer.DGCMomentumOptimizer(rate, 0.9, 1, sparsity=[0.9]).minimize(loss)
    else:
        fluid.optimizer.Adam(rate).minimize(loss)
    return loss


def samples() -> Iterator[Any]:
    """Of one epoch, drawn as a shuffling reader draws."""
    for _ in range(4 * BATCHES):
        x = np.random.standard_normal(6).astype("float32")
        yield x, x[:1] * 2


class Training:
    """A job of one or several trainers. kind: where data come from, and how gradients go."""

    def __init__(self, kind: str, folder: str, every: int) -> None:
        job = job_of_environment()
        self.rank, self.size = (job.rank, job.size) if job else (0, 1)
        self.main, self.startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.loss, self.loader, self.program = self._built(kind)
        self.executor = fluid.Executor()
        own = 0 if kind in FLEETS else self.rank
        np.random.seed(5 + own)
        drawn = torch.Generator().manual_seed(7 + own)
        set_states([("cpu", drawn.get_state())])
        self.executor.run(self.startup)
        loaders = [] if self.loader is None else [self.loader]
        self.kept = Checkpointing(folder, self.program, loaders=loaders, every=every, keep=3)

    def _built(self, kind: str) -> tuple[Any, Any, Any]:
        """The loss, a loader or None, and what is run."""
        if kind in FLEETS:
            return fleet_network(kind), None, self.main
        loss, strategy = network(kind == "compressed"), fluid.BuildStrategy()
        strategy.num_trainers, strategy.trainer_id = self.size, self.rank
        for name, value in KINDS[kind].items():
            setattr(strategy, name, value)
        run = fluid.CompiledProgram(self.main).with_data_parallel(
            loss.name, strategy, places=[fluid.CPUPlace()]
        )
        return loss, self._loader(kind), run

    def _loader(self, kind: str) -> Any:
        if kind in ("a reader", "compressed"):
            return None
        names = [self.main.global_block().var(name) for name in ("x", "y")]
        loader = fluid.io.DataLoader.from_generator(names, 2, iterable=kind == "a loader")
        places = fluid.CPUPlace() if kind == "a loader" else None
        return loader.set_sample_generator(samples, 4, places=places)

    def losses(self) -> Iterator[float]:
        """Of each step that there is to take."""
        for _ in self.kept.epochs(EPOCHS):
            for fed in self._feeds():
                try:
                    (loss,) = self.executor.run(self.program, feed=fed, fetch_list=[self.loss])
                except fluid.core.EOFException:
                    self.loader.reset()
                    break
                yield 0.0 if loss is None else float(np.mean(loss))
                self.kept.after_step()

    def _feeds(self) -> Iterator[Any]:
        if self.loader is None:
            yield from self.kept.batches(self._batches)
        elif self.loader.iterable:
            yield from self.loader()
        else:
            self.loader.start()
            while True:
                yield {}

    def _batches(self) -> Iterator[Any]:
        rows = list(samples())
        for first in range(0, len(rows), 4):
            x, y = zip(*rows[first : first + 4], strict=True)
            yield {"x": np.stack(x), "y": np.stack(y)}


def train(kinds: list[str], folder: str, every: int, most: int) -> list[Any]:
    """For each kind: whether it resumed, at which step, and the losses of at most so many steps."""
    found = []
    for kind in kinds:
        with fluid.scope_guard(fluid.Scope()):
            training = Training(kind, f"{folder}/{kind}", every)
            resumed = training.kept.resume()
            begun, losses = training.kept.step, []
            for loss in training.losses():
                losses.append(loss)
                if len(losses) == most:
                    break
            found.append((resumed, begun, losses))
    return found


def train_both(kinds: list[str], whole: str, parts: str, every: int, most: int) -> list[Any]:
    """`train` to the end, and what it gives; and in another folder for at most so many steps."""
    found = train(kinds, whole, every, 99)
    train(kinds, parts, every, most)
    return found


def begun_again(kinds: list[str], folder: str) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """What a trainer has of each kind once it has resumed, and after one step more."""
    found = []
    for kind in kinds:
        with fluid.scope_guard(fluid.Scope()):
            training = Training(kind, f"{folder}/{kind}", 0)
            assert training.kept.resume()
            first = parameters(training.main)
            next(training.losses())
            found.append((first, parameters(training.main)))
    return found


def train_until_signalled(kind: str, folder: str) -> None:
    """The second trainer is signalled in its third step."""
    training = Training(kind, folder, every=100)
    for number, _ in enumerate(training.losses(), 1):
        if number == 3 and training.rank == 1:
            os.kill(os.getpid(), signal.SIGTERM)


def crash_while_saving(kind: str, folder: str) -> None:
    """The first trainer dies in its second save, when all files are written but not in place."""
    training = Training(kind, folder, every=2)
    usual, calls = folders.finish, []

    def finish(begun: Path, *given: Any) -> Path:
        calls.append(begun)
        if len(calls) == 2:
            os._exit(9)
        return usual(begun, *given)

    folders.finish = finish
    for _ in training.losses():
        pass


def train_layers(folder: str, every: int, most: int) -> tuple[bool, list[float], dict[str, Any]]:
    """Dygraph's DataParallel: whether it resumed, losses of so many steps, and what it has."""
    from tests.collective.training import at_once_model

    dygraph = fluid.dygraph
    with dygraph.guard(), fluid.unique_name.guard():
        step, layer, optimizer, data = at_once_model()
        kept = Checkpointing(folder, layers=[layer], optimizers=[optimizer], every=every)
        resumed, losses = kept.resume(), []
        for _ in kept.epochs(EPOCHS):
            for batch in kept.batches(lambda: iter(data)):
                losses.append(step(batch))
                kept.after_step()
                if len(losses) == most:
                    return resumed, losses, {}
        return resumed, losses, {k: v.numpy() for k, v in layer.state_dict().items()}
