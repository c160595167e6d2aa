"""Predict which flights are late, with tables on two servers and two trainers, in each mode.

    python scripts/fetch_data.py flights
    refluid run examples/delays_served.py

One process trains first. Then each mode trains the same network by `refluid launch --server_num 2
--worker_num 2` (`delays_trainer.py` is what the processes run). Meanwhile this process reads the
servers' tables, predicts flights that nobody trains on, and halfway kills a server: it is started
again, goes on from its log, and no update is lost. `served.png` shows how well late flights are
told from others (the area under the ROC curve), and how fast it goes, over time.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from delays_trainer import MODES, SLOTS, build
from predict_delays import area, load, write_parts
from workshop import BLUE, GOLD, GREEN, QUIET, VIOLET, Stopwatch, chart, fluid, save, tidy
from workshop import options as read_options

from refluid.collective.launch.cluster import free_port
from refluid.core.errors import EnforceNotMet
from refluid.pserver.reading import TableReader

COLOURS = dict(zip(MODES, (BLUE, GREEN, GOLD, VIOLET), strict=True))
TRAINER = Path(__file__).with_name("delays_trainer.py")
REFLUID = [sys.executable, "-m", "refluid.cli.main"]
PARTS, EVERY, PATIENCE = 16, 1.0, 600


class Watched:
    """What was seen of a job: seconds, area under the curve, rows trained until then."""

    def __init__(self) -> None:
        self.seen: list[tuple[float, float, float]] = []
        self.killed = self.back = 0.0
        self.seconds = self.reached = 0.0

    def speeds(self) -> list[tuple[float, float]]:
        """Samples per second between two looks."""
        found = []
        for (then, _, before), (now, _, rows) in zip(self.seen, self.seen[1:], strict=False):
            if rows > before:
                found.append((now, (rows - before) / (now - then)))
        return found


def evaluated(program: Any, chance: Any, scope: Any, flights: np.ndarray, late: Any) -> float:
    """The area of a program that predicts, by what is in the scope."""
    feed = {name: column[:, None].copy() for name, column in zip(SLOTS, flights.T, strict=True)}
    if "late" in program.global_block().vars:
        feed["late"] = np.zeros((len(flights), 1), np.int64)
    (found,) = fluid.Executor().run(program, feed, [chance], scope=scope)
    return area(found[:, 1], late)


def of_model(folder: Path, flights: np.ndarray, late: np.ndarray) -> float:
    """The area of a saved model, in one process."""
    with fluid.scope_guard(fluid.Scope()) as _:
        exe, scope = fluid.Executor(), fluid.global_scope()
        program, _, (chance,) = fluid.io.load_inference_model(str(folder), exe)
        return evaluated(program, chance, scope, flights, late)


@contextmanager
def launched(mode: str, folder: Path, port: int) -> Iterator[subprocess.Popen[Any]]:
    """The launcher of a job, and what it started; all are gone after the block."""
    command = [*REFLUID, "launch", "--server_num", "2", "--worker_num", "2", "--max_restarts", "1"]
    where = ["--started_port", str(port), "--log_dir", str(folder / f"log-{mode}")]
    told = {
        **os.environ,
        "REFLUID_SERVER_CHECKPOINTS": str(folder / f"kept-{mode}"),
        "REFLUID_SERVER_LOG": "1",
        "FLAGS_worker_update_interval_secs": "8",  # a beat of figures every two
    }
    with (folder / f"{mode}.txt").open("wb") as log:
        job = subprocess.Popen(
            [*command, *where, str(TRAINER), mode, str(folder)], env=told, stdout=log, stderr=log
        )
    try:
        yield job
    finally:
        job.terminate()
        job.wait()


def kill_second_server(job: subprocess.Popen[Any], port: int) -> None:
    """As a crash does."""
    for process in psutil.Process(job.pid).children(recursive=True):
        if process.environ().get("PADDLE_PORT") == str(port + 1):
            process.kill()
            return


def watched(mode: str, folder: Path, height: int, test: Any, goal: int, say: Any) -> Watched:
    """Trains by servers, looking at their tables all the while."""
    found, port = Watched(), free_port(5)
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        _, chance, _ = build(height)
    with launched(mode, folder, port) as job:
        begun, scope = 0.0, fluid.Scope()
        while job.poll() is None and time.monotonic() < (begun or np.inf) + PATIENCE:
            try:
                with TableReader([f"127.0.0.1:{port}"], patience=1.0) as reader:
                    state = reader.state()
                    rows = sum(one[1] for one in state[0]["figures"].values())
                    if not rows:
                        time.sleep(0.2)
                        continue
                    begun = begun or time.monotonic() - EVERY
                    program = reader.connected(main)
                    reader.refresh(program, scope)
                    area_now = evaluated(program, chance.name, scope, *test)
            except EnforceNotMet as error:
                if "didn't answer" not in str(error):
                    raise
                # A server begins, ends, or was killed.
                time.sleep(0.2)
                continue
            now = time.monotonic() - begun
            found.seen.append((now, area_now, rows))
            say(f"{mode}: {rows / goal:4.0%} trained, area {area_now:.3f}")
            if found.killed and not found.back:
                found.back = now
            if rows > 0.4 * goal and not found.killed:
                found.killed = time.monotonic() - begun
                kill_second_server(job, port)
                say(f"{mode}: killed the second server")
            time.sleep(EVERY)
        found.seconds = time.monotonic() - begun
        if job.wait():
            sys.exit((folder / f"{mode}.txt").read_text()[-3000:])
    found.reached = of_model(folder / f"model-{mode}", *test)
    return found


def draw(path: Path, alone: float, jobs: dict[str, Watched]) -> Path:
    """Area and speed over time; dotted where a server is killed."""
    figure, ((left, right),) = chart(2, 12, 4.6)
    left.axhline(alone, color=QUIET, linewidth=1, linestyle="--")
    left.text(0, alone, "one process, at its end", color=QUIET, fontsize=9, va="bottom")
    for mode, job in jobs.items():
        seconds, areas, _ = zip(*job.seen, strict=True)
        colour = COLOURS[mode]
        ends = [*seconds, job.seconds], [*areas, job.reached]
        left.plot(*ends, color=colour, marker=".", label=f"{mode}: {job.reached:.3f}")
        moments, speeds = zip(*job.speeds(), strict=True)
        right.plot(moments, speeds, color=colour, marker=".", label=mode)
        for axis in (left, right):
            axis.axvline(job.killed, color=colour, linestyle=":", linewidth=1.4)
    left.set(xlabel="seconds", ylabel="area under the ROC curve", title="What servers have learnt")
    right.set(xlabel="seconds", ylabel="samples/s of both trainers")
    right.set_title("How fast; dotted: a server is killed")
    right.set_ylim(bottom=0)
    left.set_ylim(bottom=max(0.5, alone - 0.08))
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=9)
        tidy(axis)
    return save(figure, path)


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=3, flights=1_000_000)
    watch = Stopwatch()
    _, slots, late = load()
    order = np.random.RandomState(0).permutation(len(late))[: options.flights]
    held = min(30_000, len(order) // 4)
    slots = slots + np.concatenate([[0], np.cumsum(slots.max(axis=0) + 1)[:-1]])
    test = slots[order[:held]], late[order[:held]]
    rest, height = order[held:], int(slots.max()) + 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_parts(folder, slots[rest], late[rest], PARTS)
        told = {"height": height, "epochs": options.epochs, "rate": 0.001}
        (folder / "job.json").write_text(json.dumps(told))
        watch.say(f"{len(rest):,} flights to train on, {height:,} rows, {options.epochs} passes")
        begun = watch.seconds
        subprocess.run([*REFLUID, "run", str(TRAINER), "alone", name], check=True)
        seconds, alone = watch.seconds - begun, of_model(folder / "model-alone", *test)
        watch.say(f"one process: area {alone:.3f}")
        goal = len(rest) * options.epochs
        jobs = {mode: watched(mode, folder, height, test, goal, watch.say) for mode in MODES}
    print(f"\n{'':12}{'area':>7}{'to one':>9}{'seconds':>9}{'server away':>13}")
    print(f"{'one process':12}{alone:7.4f}{'':>9}{seconds:9.1f}")
    for mode, job in jobs.items():
        away = "never killed"
        if job.killed:
            away = f"{job.back - job.killed:.1f} s" if job.back else "to the end"
        print(f"{mode:12}{job.reached:7.4f}{job.reached - alone:+9.4f}{job.seconds:9.1f}{away:>13}")
    reached = {mode: job.reached for mode, job in jobs.items()}
    (options.out / "served.json").write_text(json.dumps({"one process": alone, **reached}))
    print(f"written {draw(options.out / 'served.png', alone, jobs)}")


if __name__ == "__main__":
    main()
