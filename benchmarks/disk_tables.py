"""A table on disk of more rows than its memory has room for: rows made, then trained at random.

    python benchmarks/disk_tables.py --rows 100000000 --memory 1024

One `DiskTable` of 10 columns by SGD in this process, without calls between processes. Rows are made
by updates of neighbouring ids, so many at a time; then batches of 26,000 ids, drawn evenly or by
Zipf's law, are looked up and updated. Resident memory is that of the process: what it allocated
and the pages of the file that are mapped, which the system takes back when others need memory.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from refluid.kernels.rows.draws import UNIFORM, RowDraws
from refluid.pserver.disk_rows import RowStore
from refluid.pserver.disk_table import DiskTable
from refluid.pserver.table_spec import TableSpec

WIDTH, BATCH = 10, 26_000


def resident() -> dict[str, float]:
    """GB of this process: allocated, of files, the most there was of both."""
    found = {}
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, value = line.partition(":")
        if name in ("RssAnon", "RssFile", "VmHWM"):
            found[name] = int(value.split()[0]) / 2**20
    return found


def told(what: str, rows: int, seconds: float) -> None:
    """Prints a line."""
    own = resident()
    memory = f"allocated {own['RssAnon']:.2f} GB, mapped {own['RssFile']:.2f}"
    print(
        f"{what:34} {rows / seconds:12,.0f} rows/s   {memory}, most {own['VmHWM']:.2f}", flush=True
    )


def table(store: RowStore, memory: int) -> DiskTable:
    """Of rows that begin as uniform numbers and are updated by SGD."""
    import refluid.fluid as fluid
    from refluid.pserver.row_updates import RowUpdate

    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        ids = fluid.data("ids", [None, 1], "int64")
        name = fluid.ParamAttr(name="emb")
        rows = fluid.layers.embedding(ids, [100, WIDTH], is_sparse=True, param_attr=name)
        fluid.optimizer.SGD(0.1).minimize(fluid.layers.reduce_sum(rows))
    sgd = [op for op in main.global_block().ops if op.type == "sgd"]
    update = RowUpdate(sgd, "emb", "emb@GRAD", ["emb"])
    draws = {"emb": RowDraws(UNIFORM, -0.01, 0.01, 7)}
    return DiskTable(TableSpec("emb", torch.float32, {"emb": WIDTH}, draws, update), store, memory)


def rate(_name: str) -> torch.Tensor:
    """The learning rate."""
    return torch.tensor([0.1])


def make_rows(own: DiskTable, rows: int, at_once: int) -> None:
    """Touches all ids, in order."""
    began = last = time.perf_counter()
    for start in range(0, rows, at_once):
        ids = torch.arange(start, min(start + at_once, rows))
        own.update(ids, torch.ones(len(ids), WIDTH), rate)
        if time.perf_counter() - last > 30:
            last = time.perf_counter()
            told(f"made {start + at_once:,}", start + at_once, last - began)
    told(f"made {rows:,}, one after the other", rows, time.perf_counter() - began)


def train(own: DiskTable, rows: int, steps: int, skew: float, seconds: float) -> None:
    """Looks batches up and updates them."""
    draws, done, looked = np.random.default_rng(0), 0, 0.0
    began = time.perf_counter()
    for _ in range(steps):
        if time.perf_counter() - began > seconds:
            break
        drawn = draws.zipf(skew, BATCH) if skew else draws.integers(0, 2**62, BATCH)
        # Scattered: popular ids aren't neighbours.
        ids = torch.from_numpy((drawn * 7_368_787) % rows)
        start = time.perf_counter()
        own.look_up(ids)
        looked += time.perf_counter() - start
        own.update(ids, torch.ones(BATCH, WIDTH), rate)
        done += BATCH
    law = f"by Zipf's law, {skew}" if skew else "evenly"
    told(f"looked up, drawn {law}", done, looked)
    told(f"looked up and updated, drawn {law}", done, time.perf_counter() - began)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--rows", type=int, default=10_000_000)
    options.add_argument("--memory", type=int, default=256, help="MB of rows in memory")
    options.add_argument("--steps", type=int, default=200)
    options.add_argument("--seconds", type=float, default=60.0, help="of each kind of training")
    options.add_argument("--at-once", type=int, default=500_000)
    options.add_argument("--folder", help="where the table is: a temporary folder unless given")
    given = options.parse_args()
    folder = Path(given.folder or tempfile.mkdtemp())
    try:
        store = RowStore(folder)
        own = table(store, given.memory * 2**20)
        make_rows(own, given.rows, given.at_once)
        for skew in (1.2, 0.0):
            train(own, given.rows, given.steps, skew, given.seconds)
        start = time.perf_counter()
        own.flush()
        store.commit(1)
        seconds = time.perf_counter() - start
        print(
            f"a checkpoint takes {seconds:.1f} s; "
            f"{own.rows:,} rows are {store.nbytes / 2**30:.1f} GB"
        )
        store.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
