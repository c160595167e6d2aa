"""Ctrl-C at any moment of any phase: it arrives, nothing hangs, nothing is left running."""

from __future__ import annotations

import random
import selectors
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.choices import often

PROGRAM = """
import sys, gc, faulthandler, signal
faulthandler.register(signal.SIGUSR1, all_threads=True)
import numpy as np
import refluid.paddle
from refluid import fluid
from refluid.paddle import reader as readers
from tests.feed.leftovers import assert_nothing_left
# What phases import as they first run: Python swallows interrupts in callbacks of its import locks.
import hmac, multiprocessing.popen_fork, numpy.random, secrets
import refluid.engine.dataset_training, refluid.engine.dataset_trainer, refluid.feed.live
import refluid.fluid.datasets.running, refluid.fluid.reader.dataset_loader
import refluid.kernels.machine_code

folder, phase, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
cpu = fluid.CPUPlace()
row = fluid.data("row", [None, 1], "int64")
average = fluid.layers.mean(fluid.layers.cast(row, "float32"))
exe = fluid.Executor(cpu)
main = fluid.default_main_program()

def dataset(kind, command="cat"):
    made = fluid.DatasetFactory().create_dataset(kind)
    made.set_use_var([row])
    made.set_batch_size(50)
    made.set_thread(2)
    made.set_pipe_command(command)
    made.set_filelist([folder + "/a", folder + "/b"])
    return made

class Numbers(fluid.io.Dataset):
    def __len__(self): return 30
    def __getitem__(self, index): return np.full(40000, index)

class Fleet:
    def worker_index(self): return 0
    def worker_num(self): return 2
    def worker_endpoints(self): return ["127.0.0.1:%s" % sys.argv[4]] * 2

def batches():
    for k in range(20):
        yield [np.full((50, 1), k)]

queue, memory = dataset("QueueDataset"), dataset("InMemoryDataset")
slow, shuffled = dataset("InMemoryDataset", "sleep 100"), dataset("InMemoryDataset")
threaded = fluid.io.DataLoader.from_generator([row], 4).set_batch_generator(batches, cpu)
forked = fluid.io.DataLoader.from_generator([row], 4, use_multiprocess=True)
forked.set_batch_generator(batches, cpu)
mapped = fluid.io.DataLoader(Numbers(), [row], cpu, batch_size=2, num_workers=2)
other = fluid.Program()
with fluid.program_guard(other):
    read = fluid.data("read", [None, 1], "int64")
    started = fluid.io.DataLoader.from_generator([read], 4, iterable=False)
    total = fluid.layers.mean(fluid.layers.cast(read, "float32"))
started.set_batch_generator(batches)

def first(items):
    for number, _ in enumerate(items):
        if number == 3: break

def run():
    started.start()
    try:
        while True: exe.run(other, fetch_list=[total])
    except fluid.core.EOFException:
        started.reset()

def preload():
    slow.preload_into_memory()
    slow.wait_preload_done()

split = fluid.CompiledProgram(main).with_data_parallel(places=[cpu, cpu])
parallel, sums = fluid.Program(), []
with fluid.program_guard(parallel):
    for _ in range(8):
        sums.append(fluid.layers.mean(fluid.layers.fc(fluid.data("wide", [64, 32]), 32)))
    found = fluid.layers.sums(sums)
    parallel.random_seed = 1
exe.run(fluid.default_startup_program())
strategy = fluid.ExecutionStrategy()
strategy.num_threads = 2
ordered = fluid.CompiledProgram(parallel).with_data_parallel(
    places=[cpu], exec_strategy=strategy)

class Watching(fluid.executor.FetchHandler):
    def handler(self, values): pass

PHASES = {
    "replicas": lambda: exe.run(split, {"row": np.ones((50, 1), "int64")}, [average]),
    "operators": lambda: exe.run(ordered, {"wide": np.ones((64, 32), "float32")}, [found]),
    "handler": lambda: exe.train_from_dataset(
        main, queue, thread=2, fetch_handler=Watching({"average": average}, 0.001)),
    "train": lambda: exe.train_from_dataset(main, queue),
    "threads": lambda: exe.train_from_dataset(main, queue, thread=2),
    "load": lambda: memory.load_into_memory(),
    "preload": preload,
    "exchange": lambda: (shuffled.load_into_memory(), shuffled.global_shuffle(Fleet())),
    "steps": lambda: first(fluid.io.DataLoader.from_dataset(queue, cpu)()),
    "generator": lambda: (list(threaded()), first(threaded())),
    "process": lambda: (list(forked()), first(forked())),
    "workers": lambda: (list(mapped()), first(mapped())),
    "program": run,
    "decorators": lambda: (
        first(readers.buffered(batches, 5)()),
        first(readers.xmap_readers(lambda x: x, batches, 3, 5, order=True)()),
        first(readers.multiprocess_reader([batches, batches])()),
    ),
}
work = PHASES[phase]
for number in range(rounds):
    try:
        print("go", flush=True)
        while True: work()
    except KeyboardInterrupt:
        pass
try: started.reset()
finally: gc.collect()
memory.release_memory(); slow.release_memory()
assert_nothing_left()
print("over", flush=True)
"""
pytestmark = pytest.mark.usefixtures("ctrl_c")
QUICK = ("train", "workers")
PHASES = ("load", "preload", "exchange", "steps", "generator", "process", "program")
STEPS = ("threads", "handler", "replicas", "operators")
SECONDS, AGAIN = 300, 60


def line(process: subprocess.Popen[str], seconds: float = SECONDS) -> str:
    """The next line, empty where none comes."""
    assert process.stdout is not None
    with selectors.DefaultSelector() as waiting:
        waiting.register(process.stdout, selectors.EVENT_READ)
        return process.stdout.readline() if waiting.select(seconds) else ""


def after_ctrl_c(process: subprocess.Popen[str], swallowed: list[bool]) -> str:
    """The next line. Where none comes a user presses Ctrl-C again: Python swallows one that
    arrives while a WeakSet of its own forgets a thread, and says so."""
    found = line(process, AGAIN)
    if not found:
        swallowed.append(True)
        process.send_signal(signal.SIGINT)
    return found or line(process)


def interrupted(folder: Path, phase: str, rounds: int, port: int) -> None:
    for name in "ab":
        (folder / name).write_text("".join(f"1 {k}\n" for k in range(3000)))
    source, swallowed = random.Random(phase), list[bool]()
    arguments = [str(folder), phase, str(rounds), str(port)]
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).resolve().parents[2],
    )
    try:
        for number in range(rounds):
            if after_ctrl_c(process, swallowed) != "go\n":
                process.send_signal(signal.SIGUSR1)  # prints what all threads do
                time.sleep(1)
                process.kill()
                raise AssertionError(f"stuck in round {number}:\n{process.communicate()[1]}")
            time.sleep(source.random() ** 2 * (0.4 if number else 2))
            process.send_signal(signal.SIGINT)
        last = after_ctrl_c(process, swallowed)
        _, errors = process.communicate(timeout=SECONDS)
        assert (last, process.returncode) == ("over\n", 0), errors
        assert errors.count("Exception ignored in") == len(swallowed), errors
        assert swallowed or not errors, errors
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("phase", often(QUICK, ["train"]))
def test_ctrl_c(tmp_path: Path, phase: str) -> None:
    interrupted(tmp_path, phase, 4, 0)


@pytest.mark.slow
@pytest.mark.parametrize("phase", [*QUICK, *PHASES, *STEPS, "decorators"])
def test_ctrl_c_again_and_again(tmp_path: Path, phase: str) -> None:
    interrupted(tmp_path, phase, 40, 23_461)
