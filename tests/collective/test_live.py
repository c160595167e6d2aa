"""The launcher's live line: what all trainers do, from what each tells of itself."""

from __future__ import annotations

import io
import time
from pathlib import Path
from typing import Any

from refluid.collective.launch.live import line, live, note, noted
from refluid.comm.attendance import Attendance
from refluid.comm.pulse import Beat, Pulse


class Store:
    """What the trainers' store is to a pulse."""

    def __init__(self) -> None:
        self.held: dict[str, str] = {}

    def set(self, name: str, value: str) -> None:
        self.held[name] = value

    def check(self, names: list[str]) -> bool:
        return all(one in self.held for one in names)

    def get(self, name: str) -> str:
        return self.held[name]


def test_the_line_is_about_the_time_between_two_moments() -> None:
    then = {0: Beat(10, 100, 1.0, 0.5), 1: Beat(10, 100, 1.0, 0.1)}
    now = {0: Beat(30, 300, 3.0, 1.5), 1: Beat(30, 300, 3.0, 0.3), 2: Beat(0, 0, 0.0, 0.0)}
    assert line(now, then, 3) == (
        "step 31, 100 ms a step, 200 samples/s of 3 trainers, 30% waiting for communication, "
        "slowest: trainer 1, 90 ms of its own"
    )
    assert line(then, then, 2) == "" and line({}, {}, 2) == ""
    assert "200 samples/s" not in line({0: Beat(4, 0, 1.0, 0.0)}, {}, 1)
    begun_again = {0: Beat(5, 50, 0.5, 0.0)}
    assert line(begun_again, now, 1).startswith("step 6, 100 ms a step, 100 samples/s")


def test_each_tells_and_the_first_knows_of_all() -> None:
    store, found, waited = Store(), [], [0.0, 0.0]
    pulses = [
        Pulse(store, rank, 2, lambda rank=rank: waited[rank], tell, every=0.0)  # type: ignore[misc]
        for rank, tell in enumerate((found.append, None))
    ]
    for _ in range(3):
        for rank in (1, 0):
            waited[rank] += 0.25
            pulses[rank].after_step(4)
    beats = found[-1]
    assert [beats[rank][:2] for rank in (0, 1)] == [(2, 8), (2, 8)]
    assert beats[0].waited == 0.5 and beats[0].seconds > 0


def test_lines_are_printed_where_there_is_no_terminal(tmp_path: Path) -> None:
    assert noted(tmp_path) == {}
    note(tmp_path / "no" / "folder", {})
    out = io.StringIO()
    with live(tmp_path, 2, out, every=0.05):
        until = time.monotonic() + 20
        while "step 3," not in out.getvalue() and time.monotonic() < until:
            note(tmp_path, {0: Beat(2, 8, 1.0, 0.2)})
            time.sleep(0.05)
    said = out.getvalue()
    assert said.startswith("refluid: step 3, 500 ms a step, 8 samples/s of 2 trainers, 20% waiting")
    assert said.count("step 3,") == 1  # nothing new is not said again


def test_an_attendance_is_watched() -> None:
    class Alone:
        size = 1

        def announce(self, number: int) -> Any:
            return lambda: [number]

    there, rows = Attendance(Alone()), []
    there.watch = rows.append
    for batch in (3, 5):
        assert there.step(7, lambda: "done", lambda: None, batch) == "done"
    assert rows == [3, 5] and there.steps == there.rounds == 2
    there.finish()
    assert there.steps == 2
