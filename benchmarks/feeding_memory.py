"""Memory of a program whose reader is ten times as fast as its training, over 2 GB of files.

python benchmarks/feeding_memory.py [gigabytes]
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import psutil
import torch

from benchmarks.feeding_multislot import ctr_text
from refluid import fluid
from refluid.feed import measured

SLOTS, DENSE, ROWS = 26, 13, 1000
FILES, THREADS = 20, 2
SLOWER = 12.0
_PART = 20_000


@dataclass(frozen=True)
class Bounded:
    """What a pass took: bytes of text and of memory above the model's, and both speeds."""

    text: int
    above: int
    produced: float
    consumed: float
    seconds: float


def write_files(folder: Path, size: int) -> list[str]:
    """Files of `size` bytes together: one, with several names."""
    block = ctr_text(_PART, dense=True)
    first = folder / "part-0"
    with first.open("wb") as file:
        for _ in range(max(1, round(size / FILES / len(block)))):
            file.write(block)
    paths = [first]
    for number in range(1, FILES):
        paths.append(folder / f"part-{number}")
        os.link(first, paths[-1])
    return [str(path) for path in paths]


@contextmanager
def highest() -> Iterator[list[int]]:
    """Measures this process's memory within the block: [at its begin, the most so far]."""
    process, done = psutil.Process(), threading.Event()
    start = process.memory_info().rss
    found = [start, start]

    def watch() -> None:
        while not done.wait(0.02):
            found[1] = max(found[1], process.memory_info().rss)

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def bounded(size: int) -> Bounded:
    """A pass over files of `size` bytes, by two threads that read and one that trains."""
    torch.set_num_threads(1)
    pause = [0.0]
    dense = fluid.data("dense", [None, DENSE])
    label = fluid.data("label", [None, 1], "int64")
    ids = [fluid.data(f"C{k}", [None, 1], "int64", lod_level=1) for k in range(SLOTS)]
    fluid.layers.py_func(lambda _rows: time.sleep(pause[0]), label, None)
    fluid.layers.mean(fluid.layers.fc(dense, 1))
    exe = fluid.Executor()
    exe.run(fluid.default_startup_program())
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), size)
        dataset = fluid.DatasetFactory().create_dataset("QueueDataset")
        dataset.set_use_var([dense, label, *ids])
        dataset.set_batch_size(ROWS)
        dataset.set_thread(THREADS)
        short = Path(folder) / "short"
        short.write_bytes(ctr_text(4 * ROWS, dense=True))
        dataset.set_filelist([str(short)])
        for _ in range(2):  # compiles the parser; the second pass shows how fast it reads
            exe.train_from_dataset(fluid.default_main_program(), dataset)
        reading = list(measured().values())[-1]
        pause[0] = SLOWER / reading.produced_per_second / THREADS
        dataset.set_filelist(paths)
        start = time.perf_counter()
        with highest() as memory:
            exe.train_from_dataset(fluid.default_main_program(), dataset, thread=1)
        seconds = time.perf_counter() - start
        after = list(measured().values())[-1]
        text = sum(os.stat(path).st_size for path in paths)
    return Bounded(
        text,
        memory[1] - memory[0],
        after.produced_per_second * THREADS,
        after.consumed_per_second,
        seconds,
    )


def main() -> None:
    size = float(sys.argv[1]) if len(sys.argv) > 1 else 2.0
    found = bounded(round(size * 2**30))
    print(
        f"{found.text / 2**30:.2f} GB of text in {found.seconds:.0f} s: at most "
        f"{found.above / 2**20:.0f} MB above the model; read {found.produced:.0f} batches/s, "
        f"trained {found.consumed:.0f}"
    )


if __name__ == "__main__":
    main()
