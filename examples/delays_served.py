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
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from delays_trainer import MODES, SLOTS, build
from predict_delays import area, load, write_parts
from workshop import BLUE, GOLD, GREEN, QUIET, VIOLET, Stopwatch, chart, fluid, save, tidy
from workshop import options as read_options

from refluid.collective.launch.servers_live import job_figures
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port
from refluid.pserver.figures import NO_FIGURES, TrainerFigures
from refluid.pserver.reading import TableReader

COLOURS = dict(zip(MODES, (BLUE, GREEN, GOLD, VIOLET), strict=True))
TRAINER = Path(__file__).with_name("delays_trainer.py")
REFLUID = [sys.executable, "-m", "refluid.cli.main"]
PARTS, EVERY, PATIENCE = 16, 1.0, 600


@dataclass(frozen=True)
class Task:
    """What all train: files in a folder, as many rows of a table, samples of all passes.

    test: slots of flights that nobody trains on, and whether they were late.
    """

    folder: Path
    height: int
    goal: int
    test: tuple[np.ndarray, np.ndarray]


class Watched:
    """What was seen of a job: area under the curve, and figures of its trainers, by seconds."""

    def __init__(self) -> None:
        self.areas: list[tuple[float, float]] = []
        self.figures: list[tuple[float, dict[int, TrainerFigures]]] = []
        self.killed = self.back = 0.0
        self.seconds = self.reached = 0.0

    def speeds(self) -> list[tuple[float, float]]:
        """Samples per second of all trainers, each by its own clock since it told last."""
        found, before, rates = [], dict[int, TrainerFigures](), dict[int, float]()
        for moment, figures in self.figures:
            for number, one in figures.items():
                last = before.get(number, NO_FIGURES)
                if one.seconds > last.seconds:
                    rates[number] = (one.rows - last.rows) / (one.seconds - last.seconds)
                    before[number] = one
            found.append((moment, sum(rates.values())))
        return found


def written(folder: Path, flights: int, epochs: int) -> Task:
    """The files of at most so many flights, shuffled."""
    _, slots, late = load()
    order = np.random.RandomState(0).permutation(len(late))[:flights]
    held = min(30_000, len(order) // 4)
    slots = slots + np.concatenate([[0], np.cumsum(slots.max(axis=0) + 1)[:-1]])
    test, rest, height = order[:held], order[held:], int(slots.max()) + 1
    write_parts(folder, slots[rest], late[rest], PARTS)
    told = {"height": height, "epochs": epochs, "rate": 0.001}
    (folder / "job.json").write_text(json.dumps(told))
    return Task(folder, height, len(rest) * epochs, (slots[test], late[test]))


def evaluated(program: Any, chance: Any, scope: Any, flights: np.ndarray, late: Any) -> float:
    """The area of a program that predicts, by what is in the scope."""
    feed = {name: column[:, None].copy() for name, column in zip(SLOTS, flights.T, strict=True)}
    if "late" in program.global_block().vars:
        feed["late"] = np.zeros((len(flights), 1), np.int64)
    (found,) = fluid.Executor().run(program, feed, [chance], scope=scope)
    return area(found[:, 1], late)


def of_model(task: Task, mode: str) -> float:
    """The area of a saved model, in one process."""
    with fluid.scope_guard(fluid.Scope()) as _:
        exe, scope = fluid.Executor(), fluid.global_scope()
        saved = str(task.folder / f"model-{mode}")
        program, _, (chance,) = fluid.io.load_inference_model(saved, exe)
        return evaluated(program, chance, scope, *task.test)


def alone(task: Task) -> float:
    """The area that one process reaches."""
    subprocess.run([*REFLUID, "run", str(TRAINER), "alone", str(task.folder)], check=True)
    return of_model(task, "alone")


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


def kill_second_server(job: subprocess.Popen[Any], port: int) -> bool:
    """As a crash does; whether it was there."""
    for process in psutil.Process(job.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if process.environ().get("PADDLE_PORT") == str(port + 1):
                process.kill()
                return True
    return False


def look(task: Task, port: int, main: Any, chance: Any, scope: Any) -> tuple[Any, float] | None:
    """What trainers tell, and the area of the tables; None where not all servers answer yet."""
    try:
        with TableReader([f"127.0.0.1:{port}"], patience=1.0) as reader:
            figures = dict(job_figures(reader.state()).figures)
            if not sum(one.rows for one in figures.values()):
                return None
            program = reader.connected(main)
            reader.refresh(program, scope)
            return figures, evaluated(program, chance.name, scope, *task.test)
    except EnforceNotMet as error:
        if "didn't answer" not in str(error):
            raise
        return None  # a server begins, ends, or was killed


def watched(mode: str, task: Task, say: Callable[[str], None]) -> Watched:
    """Trains by servers, looking at their tables all the while; kills one of them."""
    found, port, scope = Watched(), free_port(5), fluid.Scope()
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        _, chance, _ = build(task.height)
    log = task.folder / f"{mode}.txt"
    with launched(mode, task.folder, port) as job:
        until, begun = time.monotonic() + PATIENCE, 0.0
        while job.poll() is None:
            if time.monotonic() > until:
                sys.exit(f"{mode}: isn't done after {PATIENCE} s\n{log.read_text()[-3000:]}")
            seen = look(task, port, main, chance, scope)
            if seen is None:
                time.sleep(0.2)
                continue
            figures, area_now = seen
            begun = begun or time.monotonic() - EVERY
            now, rows = time.monotonic() - begun, sum(one.rows for one in figures.values())
            found.areas.append((now, area_now))
            found.figures.append((now, figures))
            say(f"{mode}: {rows / task.goal:4.0%} trained, area {area_now:.3f}")
            if found.killed and not found.back:
                found.back = now
            if rows > 0.4 * task.goal and not found.killed and kill_second_server(job, port):
                found.killed = time.monotonic() - begun
                say(f"{mode}: killed the second server")
            with suppress(subprocess.TimeoutExpired):
                job.wait(EVERY)
        found.seconds = time.monotonic() - begun
    if job.returncode:
        sys.exit(log.read_text()[-3000:])
    found.reached = of_model(task, mode)
    return found


def draw(path: Path, one: float, jobs: dict[str, Watched]) -> Path:
    """Area and speed over time; dotted where a server is killed."""
    figure, ((left, right),) = chart(2, 12, 4.6)
    left.axhline(one, color=QUIET, linewidth=1, linestyle="--", label=f"one process: {one:.3f}")
    for mode, job in jobs.items():
        colour = COLOURS[mode]
        ends = [*job.areas, (job.seconds, job.reached)]
        left.plot(
            *zip(*ends, strict=True), color=colour, marker=".", label=f"{mode}: {job.reached:.3f}"
        )
        right.plot(*np.array(job.speeds()).reshape(-1, 2).T, color=colour, marker=".", label=mode)
        for axis in (left, right) if job.killed else ():
            axis.axvline(job.killed, color=colour, linestyle=":", linewidth=1.4)
    left.set(xlabel="seconds", ylabel="area under the ROC curve", title="What servers have learnt")
    right.set(xlabel="seconds", ylabel="samples/s of both trainers")
    right.set_title("How fast; dotted: a server is killed")
    right.set_ylim(bottom=0)
    left.set_ylim(bottom=max(0.5, one - 0.08))
    for axis in (left, right):
        axis.legend(frameon=False, fontsize=9)
        tidy(axis)
    return save(figure, path)


def main() -> None:
    options = read_options(__doc__.splitlines()[0], epochs=3, flights=1_000_000)
    watch = Stopwatch()
    with tempfile.TemporaryDirectory() as name:
        task = written(Path(name), options.flights, options.epochs)
        count = task.goal // options.epochs
        watch.say(f"{count:,} flights to train on, {task.height:,} rows, {options.epochs} passes")
        begun = watch.seconds
        one = alone(task)
        seconds = watch.seconds - begun
        watch.say(f"one process: area {one:.3f}")
        jobs = {mode: watched(mode, task, watch.say) for mode in MODES}
    print(f"\n{'':12}{'area':>7}{'to one':>9}{'seconds':>9}{'server away':>13}")
    print(f"{'one process':12}{one:7.4f}{'':>9}{seconds:9.1f}")
    for mode, job in jobs.items():
        away = "never killed"
        if job.killed:
            away = f"{job.back - job.killed:.1f} s" if job.back else "to the end"
        print(f"{mode:12}{job.reached:7.4f}{job.reached - one:+9.4f}{job.seconds:9.1f}{away:>13}")
    reached = {mode: job.reached for mode, job in jobs.items()}
    (options.out / "served.json").write_text(json.dumps({"one process": one, **reached}))
    print(f"written {draw(options.out / 'served.png', one, jobs)}")


if __name__ == "__main__":
    main()
