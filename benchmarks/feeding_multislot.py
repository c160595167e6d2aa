"""How fast MultiSlot text becomes tensors, and how fast CTR-DNN is trained on it.

All figures are seconds of CPU, so other work on the machine matters little. `feeding.py` reports
them.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from refluid import fluid
from refluid.feed.multislot.parsing import LineSlot, MultiSlotParser

SLOTS, DENSE, IDS = 26, 13, 1_000_001
ROUNDS = 15


def ctr_text(lines: int, *, dense: bool) -> bytes:
    """Lines of 26 slots with one id each; with `dense` 13 numbers and a label before them."""
    random = np.random.default_rng(0)
    ids = random.integers(0, IDS, (lines, SLOTS))
    numbers = random.random((lines, DENSE)).round(6)
    rows = []
    for row, values in zip(ids.tolist(), numbers.tolist(), strict=True):
        before = f"13 {' '.join(map(str, values))} 1 {row[0] % 2} " if dense else ""
        rows.append(before + " ".join(f"1 {one}" for one in row) + "\n")
    return "".join(rows).encode()


def plain_python(text: bytes) -> list[list[list[int]]]:
    """The obvious parser."""
    rows = []
    for line in text.decode().splitlines():
        tokens, at, row = line.split(), 0, []
        for _ in range(SLOTS):
            count = int(tokens[at])
            row.append([int(one) for one in tokens[at + 1 : at + 1 + count]])
            at += 1 + count
        rows.append(row)
    return rows


def best(work: Callable[[], object], rounds: int = ROUNDS) -> float:
    """The shortest CPU time of this thread."""
    found = []
    for _ in range(rounds):
        start = time.thread_time()
        work()
        found.append(time.thread_time() - start)
    return min(found)


@dataclass(frozen=True)
class Parsing:
    """Lines and bytes per second of one thread, of plain Python, and bytes copied per second."""

    lines: float
    size: float
    python: float
    copied: float


def parsing(lines: int) -> Parsing:
    """Parses the 26-slot line of click logs; both sides must find the same numbers."""
    text = ctr_text(lines, dense=False)
    parser = MultiSlotParser([LineSlot(f"C{number}", "int64") for number in range(SLOTS)])
    first = parser.parse(text, len(text), "", 1)
    rows = plain_python(text)
    ours = np.stack(list(first.columns.values), 1)
    assert (ours == np.array(rows)[:, :, 0]).all()
    held = np.frombuffer(text, np.uint8)
    parse = best(lambda: parser.parse(text, len(text), "", 1))
    python = best(lambda: plain_python(text), 5)
    copy = best(lambda: held.copy())
    return Parsing(lines / parse, len(text) / parse, lines / python, len(text) / copy)


def ctr_dnn() -> list[fluid.Variable]:
    """The CTR-DNN network in the default program; its inputs."""
    dense = fluid.data("dense", [None, DENSE])
    label = fluid.data("label", [None, 1], "int64")
    ids = [fluid.data(f"C{k}", [None, 1], "int64", lod_level=1) for k in range(SLOTS)]
    table = fluid.ParamAttr("table", initializer=fluid.initializer.Uniform())
    found = [
        fluid.layers.sequence_pool(
            fluid.layers.embedding(one, [IDS, 10], is_sparse=True, param_attr=table), "sum"
        )
        for one in ids
    ]
    hidden = fluid.layers.concat([*found, dense], 1)
    for _ in range(3):
        hidden = fluid.layers.fc(hidden, 400, act="relu")
    out = fluid.layers.fc(hidden, 2, act="softmax")
    loss = fluid.layers.mean(fluid.layers.cross_entropy(out, label))
    fluid.layers.auc(out, label)
    fluid.optimizer.SGD(1e-4).minimize(loss)
    return [dense, label, *ids]


def training(lines: int, threads: int, rounds: int) -> float:
    """Samples per CPU second of train_from_dataset, the median of some passes."""
    torch.set_num_threads(1)
    found = []
    with (
        tempfile.TemporaryDirectory() as folder,
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.Scope()),
    ):
        paths = [Path(folder) / f"part-{number}" for number in range(threads)]
        for path in paths:
            path.write_bytes(ctr_text(lines, dense=True))
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var(ctr_dnn())
        dataset.set_batch_size(1000)
        dataset.set_thread(threads)
        dataset.set_filelist([str(path) for path in paths])
        exe = fluid.Executor()
        exe.run(fluid.default_startup_program())
        exe.train_from_dataset(fluid.default_main_program(), dataset)
        for _ in range(rounds):
            cpu = sum(os.times()[:4])
            exe.train_from_dataset(fluid.default_main_program(), dataset)
            found.append(lines * threads / (sum(os.times()[:4]) - cpu))
    return statistics.median(found)
