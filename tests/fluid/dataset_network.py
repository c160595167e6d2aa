"""A small network and data files for tests of datasets."""

from __future__ import annotations

import random
import threading
from pathlib import Path
from typing import Any

import numpy as np

from refluid import fluid
from refluid.fluid import layers

KINDS = ("QueueDataset", "InMemoryDataset")
COUNTS = (40, 61, 7, 100, 33)
TOTAL = sum(COUNTS)


def write_files(tmp_path: Path) -> list[str]:
    """Rows with counted ids, 1 to 4 words, 3 numbers and a label that is easy to learn."""
    source = random.Random(3)
    row, paths = 0, []
    for count in COUNTS:
        lines = []
        for _ in range(count):
            words = [source.randrange(50) for _ in range(source.randint(1, 4))]
            x = [source.random() for _ in range(3)]
            text = f"1 {row} {len(words)} {' '.join(map(str, words))}"
            lines.append(f"{text} 3 {' '.join(map(str, x))} 1 {int(x[0] > 0.5)}\n")
            row += 1
        path = tmp_path / f"part-{len(paths)}"
        path.write_text("".join(lines))
        paths.append(str(path))
    return paths


class Network:
    """A small classifier that notes the ids of the rows it sees."""

    def __init__(self, fails_at: int = -1) -> None:
        self.seen: list[int] = []
        self._lock = threading.Lock()
        self._fails_at = fails_at
        row = fluid.data("row", [None, 1], "int64")
        words = fluid.data("words", [None, 1], "int64", lod_level=1)
        x = fluid.data("x", [None, 3])
        label = fluid.data("label", [None, 1], "int64")
        self.variables = [row, words, x, label]
        layers.py_func(self._note, row, None)
        pooled = layers.sequence_pool(fluid.embedding(words, [50, 4], is_sparse=True), "sum")
        out = layers.fc(layers.fc([pooled, x], 8, act="relu"), 2, act="softmax")
        self.loss = layers.mean(layers.cross_entropy(out, label))
        fluid.optimizer.SGD(0.1).minimize(self.loss)
        self.exe = fluid.Executor()
        self.exe.run(fluid.default_startup_program())

    def _note(self, rows: Any) -> None:
        found = np.array(rows).ravel().tolist()
        if self._fails_at in found:
            raise ValueError("the operator fails")
        with self._lock:
            self.seen += found

    def dataset(self, kind: str, files: list[str], threads: int = 1, size: int = 16) -> Any:
        made = fluid.DatasetFactory().create_dataset(kind)
        made.set_use_var(self.variables)
        made.set_batch_size(size)
        made.set_thread(threads)
        made.set_filelist(files)
        return made

    def train(self, dataset: Any, **options: Any) -> None:
        self.exe.train_from_dataset(fluid.default_main_program(), dataset, **options)

    def parameters(self) -> dict[str, np.ndarray[Any, Any]]:
        scope = fluid.global_scope()
        return {
            one.name: np.array(scope.find_var(one.name).get_tensor())
            for one in fluid.default_main_program().all_parameters()
        }
