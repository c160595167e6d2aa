"""Random networks with tables: programs for jobs of two trainers, and for one process."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np

from refluid import fluid
from tests.pserver.jobs import Built
from tests.pserver.test_optimizers import OPTIMIZERS, RATES

Batch = dict[str, Any]
L, TRAINERS = fluid.layers, 2
# Those whose updates of a table move the rows of a push alone, in one process too.
OF_ROWS = ("sgd", "adagrad", "lazy adam")
# Dpsgd draws numbers, what Lamb and LARS move is no table.
TAKEN = sorted(OPTIMIZERS.keys() - {"dpsgd", "lars", "lamb"})
CLIPS: dict[str, Callable[[], Any]] = {
    "value": lambda: fluid.clip.GradientClipByValue(0.05),
    "norm": lambda: fluid.clip.GradientClipByNorm(0.3),
    "norm of all": lambda: fluid.clip.GradientClipByGlobalNorm(0.3),
}


class RandomNetwork:
    """Tables that several inputs look up, with and without LoD, and dense layers above them.

    steps: batches of each trainer. Where gradients are clipped, which each trainer does with its
    own, all have the same batches; else one process trains on all of them joined.
    """

    def __init__(self, seed: int) -> None:
        draw = random.Random(seed)
        self._numbers = np.random.RandomState(seed)
        self._optimizer = draw.choice(TAKEN)
        self._rate = draw.choice([lambda: 0.05, *RATES.values()])
        self._clip = draw.choice([*[""] * 4, *CLIPS])
        # Each batch has all rows where an optimizer moves all of them in one process.
        self._height = draw.randint(4, 30 if self._optimizer in OF_ROWS else 6)
        self._tables = {
            f"table {number}": (draw.randint(1, 6), draw.random() < 0.7, draw.random() < 0.3)
            for number in range(draw.randint(1, 3))
        }
        # Whether an input has several ids in a row.
        self._inputs = {f"ids {number}": draw.random() < 0.4 for number in range(3)}
        self._lookups = [
            (name, draw.choice(list(self._tables)), draw.choice(["sum", "average", "last"]))
            for name in [*self._inputs, *draw.sample(list(self._inputs), 2)]
        ]
        self._layers = [
            (draw.randint(1, 9), draw.choice([None, "tanh", "sigmoid"]), draw.random() < 0.7)
            for _ in range(draw.randint(1, 3))
        ]
        self._weights: list[Any] = []
        self.settings = {
            "min_block_size": draw.choice([1, 4, 64, 8192]),
            "slice_var_up": draw.random() < 0.8,
            "split_method": draw.choice([fluid.transpiler.HashName, fluid.transpiler.RoundRobin]),
        }
        self.servers = [draw.randint(1, 3), draw.randint(1, 3)]
        self.steps = [self._step() for _ in range(6)]

    def build(self) -> Built:
        """Main and startup program, and the loss, alike each time."""
        main, startup = fluid.Program(), fluid.Program()
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            ids = {
                name: fluid.data(name, [None, 1], "int64", lod_level=int(several))
                for name, several in self._inputs.items()
            }
            rows = [self._rows(ids[name], *others) for name, *others in self._lookups]
            hidden = L.concat([fluid.data("x", [None, 3]), *rows], 1)
            draws = np.random.RandomState(7)
            for size, act, bias in [*self._layers, (1, None, True)]:
                first = draws.uniform(-0.7, 0.7, (hidden.shape[1], size)).astype("f4")
                weights = fluid.initializer.NumpyArrayInitializer(first)
                hidden = L.fc(
                    hidden, size, act=act, param_attr=weights, bias_attr=None if bias else False
                )
            label = fluid.data("label", [None, 1])
            loss = L.mean(L.square_error_cost(hidden, label))
            if self._clip:
                fluid.clip.set_gradient_clip(CLIPS[self._clip]())
            OPTIMIZERS[self._optimizer](self._rate()).minimize(loss)
        return main, startup, loss

    def _rows(self, ids: Any, table: str, pool: str) -> Any:
        width, is_sparse, is_distributed = self._tables[table]
        first = fluid.initializer.Constant(0.1 + 0.1 * width)
        rows = L.embedding(
            ids,
            [self._height, width],
            is_sparse=is_sparse,
            is_distributed=is_sparse and is_distributed,
            param_attr=fluid.ParamAttr(name=table, initializer=first),
        )
        return L.sequence_pool(rows, pool) if ids.lod_level else rows

    def _step(self) -> list[Batch]:
        batches = [self._batch() for _ in range(TRAINERS)]
        return [batches[0]] * TRAINERS if self._clip else batches

    def _batch(self) -> Batch:
        draw, size = self._numbers, 8
        found: Batch = {
            "x": draw.standard_normal((size, 3)).astype("f4"),
            "label": draw.standard_normal((size, 1)).astype("f4"),
        }
        for name, several in self._inputs.items():
            lengths = draw.randint(1, 4, size) if several else np.ones(size, int)
            more = draw.randint(0, self._height, 3 * size)
            ids = np.concatenate([draw.permutation(self._height), more])[: lengths.sum()]
            ids = draw.permutation(ids)[:, None]
            found[name] = (ids, lengths.tolist()) if several else ids
        return found

    def joined(self, step: list[Batch]) -> Batch:
        """What one process trains on in a step."""
        if self._clip:
            return step[0]
        found: Batch = {}
        for name, value in step[0].items():
            if isinstance(value, tuple):
                ids, lengths = zip(*(one[name] for one in step), strict=True)
                found[name] = np.concatenate(ids), [one for own in lengths for one in own]
            else:
                found[name] = np.concatenate([one[name] for one in step])
        return found


def fed(batch: Batch) -> dict[str, Any]:
    """The batch as an executor takes it."""
    return {
        name: fluid.create_lod_tensor(value[0], [value[1]], fluid.CPUPlace())
        if isinstance(value, tuple)
        else value
        for name, value in batch.items()
    }
