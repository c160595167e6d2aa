"""How fast MultiSlot text becomes tensors, against plain Python and against copying memory.

    python benchmarks/feeding_multislot.py [--lines 4000] [--train]

All figures are seconds of CPU of one thread, so other work on the machine matters little. --train
adds samples per CPU second of CTR-DNN by train_from_dataset.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from refluid import fluid
from refluid.feed.multislot import MultiSlotParser, Slot

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


def parsing(lines: int) -> None:
    """Prints lines per second and the ratios."""
    text = ctr_text(lines, dense=False)
    parser = MultiSlotParser([Slot(f"C{number}", "int64") for number in range(SLOTS)])
    first = parser.parse(text, len(text), "", 1)
    rows = plain_python(text)
    ours = np.stack(list(first.columns.values), 1)
    assert (ours == np.array(rows)[:, :, 0]).all()
    held = np.frombuffer(text, np.uint8)
    parse = best(lambda: parser.parse(text, len(text), "", 1))
    python = best(lambda: plain_python(text), 5)
    copy = best(lambda: held.copy())
    print(
        f"26 slots, {len(text) / lines:.0f} bytes a line: {lines / parse:,.0f} lines/s a core, "
        f"{len(text) / parse / 1e6:.0f} MB/s; {python / parse:.1f} times plain Python "
        f"({lines / python:,.0f} lines/s); copying the text is {parse / copy:.0f} times faster"
    )


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


def training(lines: int, threads: int) -> None:
    """Prints samples per CPU second of train_from_dataset."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
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
        for round_number in range(4):
            cpu, wall = sum(os.times()[:4]), time.perf_counter()
            exe.train_from_dataset(fluid.default_main_program(), dataset)
            cpu, wall = sum(os.times()[:4]) - cpu, time.perf_counter() - wall
            rows = lines * threads
            if round_number:
                print(
                    f"CTR-DNN, {threads} threads: {rows / wall:,.0f} samples/s, "
                    f"{rows / cpu:,.0f} per CPU second"
                )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--lines", type=int, default=4000)
    arguments.add_argument("--train", action="store_true")
    arguments.add_argument("--threads", type=int, default=1)
    chosen = arguments.parse_args()
    parsing(chosen.lines)
    if chosen.train:
        training(10 * chosen.lines, chosen.threads)


if __name__ == "__main__":
    main()
