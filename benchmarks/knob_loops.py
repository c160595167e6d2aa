"""Loops for knobs that act on more than a program: on layers of dygraph, on threads of a dataset.

Each makes a step, with the knob or without; a step takes a batch that it may leave aside, and
returns a loss.
"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.knob_networks import NETWORKS
from refluid import fluid
from refluid.engine.choices import NONE, choosing
from refluid.engine.knobs import KnobScope
from refluid.measure.timing import Feed, TrainStep

layers = fluid.layers
_FILES, _ROWS = 4, 2000


@dataclass(frozen=True)
class Loop:
    """One knob. make: a step, with it or without. tolerance: of losses, relative. settles: for so
    many seconds each side chooses how it runs, before it is timed."""

    knob: str
    title: str
    make: Callable[[bool], TrainStep]
    tolerance: float
    settles: float = 0.0


class _Layers(fluid.dygraph.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.hidden = fluid.dygraph.LayerList(
            [fluid.dygraph.Linear(64, 64, act="relu") for _ in range(3)]
        )
        self.last = fluid.dygraph.Linear(64, 10)

    def forward(self, x: object) -> object:
        for layer in self.hidden:
            x = layer(x)
        return self.last(x)


def _dygraph(on: bool) -> TrainStep:
    with fluid.dygraph.guard():
        fluid.default_main_program().random_seed = 3
        fluid.default_startup_program().random_seed = 3
        network = _Layers()
        adam = fluid.optimizer.Adam(1e-4, parameter_list=network.parameters())

    def step(feed: Feed) -> float:
        with choosing(chosen), fluid.dygraph.guard():
            x, y = (fluid.dygraph.to_variable(feed[name]) for name in ("image", "label"))
            loss = layers.mean(layers.softmax_with_cross_entropy(network(x), y))
            loss.backward()
            adam.minimize(loss)
            network.clear_gradients()
            return float(loss.numpy().item())

    chosen = NONE.put(KnobScope.DYGRAPH, "declarative", True) if on else NONE
    return step


def _files(folder: Path) -> list[str]:
    """Clicks: some ids and a label in each row."""
    chance = random.Random(1)
    paths = [folder / str(number) for number in range(_FILES)]
    for path in paths:
        with path.open("w") as file:
            for _ in range(_ROWS):
                ids = [str(chance.randrange(1000)) for _ in range(6)]
                file.write(f"6 {' '.join(ids)} 1 {chance.randrange(2)}\n")
    return [str(path) for path in paths]


def _dataset(on: bool) -> TrainStep:
    folder = tempfile.TemporaryDirectory()
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        label = fluid.data("label", [None, 1], "int64")
        hidden = layers.sequence_pool(fluid.embedding(ids, [1000, 16], is_sparse=True), "sum")
        for width in (128, 64):
            hidden = layers.fc(hidden, width, act="relu")
        out = layers.fc(hidden, 2, act="softmax")
        loss = layers.mean(layers.cross_entropy(out, label))
        fluid.optimizer.SGD(1e-4).minimize(loss)
    executor = fluid.Executor()
    executor.run(startup, scope=scope)
    dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
    dataset.set_batch_size(100)
    dataset.set_use_var([ids, label])
    dataset.set_filelist(_files(Path(folder.name)))
    name = main.all_parameters()[-1].name

    def step(_feed: Feed) -> float:
        assert folder.name  # kept for as long as the step
        executor.train_from_dataset(main, dataset, scope, thread=2 if on else 1)
        return float(np.abs(np.array(scope.find_var(name).get_tensor())).sum())

    return step


LOOPS = (
    Loop("declarative", f"{NETWORKS['small'].title}, in dygraph", _dygraph, 1e-3),
    Loop("thread", f"2 threads, clicks from {_FILES} files", _dataset, 0.05, settles=3.0),
)
