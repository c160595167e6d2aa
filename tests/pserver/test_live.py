"""The launcher's line of a job with servers, from what trainers tell them."""

from __future__ import annotations

import io
import time
from typing import Any

import numpy as np
import pytest

from refluid.collective.launch.servers_live import (
    JobFigures,
    job_figures,
    live_servers,
    servers_line,
)
from refluid.pserver.figures import NO_FIGURES, FigureBook, TrainerFigures, read_figures
from refluid.pserver.messages import MalformedMessage
from tests.pserver.tables import cluster, divided

THEN = JobFigures({0: TrainerFigures(10, 1000, 2.0, 10, 0.1, 10, 0.2)})
NOW = JobFigures(
    {
        0: TrainerFigures(30, 3000, 4.0, 30, 0.2, 20, 0.4, 3, 5),
        1: TrainerFigures(5, 500, 1.0, 5, 0.1, 5, 0.1, 1, 7),
    },
    2,
    123456,
    14_200_000,
)


def test_the_line_is_about_the_time_between_two_moments() -> None:
    assert servers_line(NOW, THEN) == (
        "1,500 samples/s of 2 trainers, pull 8 ms, push 20 ms, 4 steps wait, parameters are up to "
        "7 steps behind, 123,456 rows, 14.2 MB on 2 servers"
    )
    assert servers_line(JobFigures({}), JobFigures({})) == ""
    assert servers_line(JobFigures({0: NO_FIGURES}), THEN) == ""
    again = JobFigures({0: TrainerFigures(5, 500, 1.0)})
    assert servers_line(again, NOW).startswith("500 samples/s of 1 trainers, 0 steps wait")


def test_figures_are_counted_and_checked() -> None:
    book = FigureBook()
    book.lag = lambda: (2, 3)
    for rows in (4, 6):
        book.step(rows)
        with book.timing("pull"):
            time.sleep(0.001)
    name, array = book.array()
    found = read_figures(array)
    assert name == "figures" and found == TrainerFigures(*array.tolist())
    assert (found.steps, found.rows, found.pulls, found.pushes) == (2, 10, 2, 0)
    assert (found.waiting, found.behind) == (2, 3) and found.pull_seconds >= 0.002
    for wrong in (array[:3], array.astype("f4"), np.full_like(array, np.inf)):
        with pytest.raises(MalformedMessage):
            read_figures(wrong)


def test_servers_are_asked_for_what_trainers_told() -> None:
    with cluster(divided(servers=2, trainers=2)) as found:
        clients = [found.client(number, beats=0.05) for number in range(2)]
        for number, client in enumerate(clients):
            for _ in range(3 + number):
                client.figures.step(8)
        until = time.monotonic() + 20
        while time.monotonic() < until:
            told = job_figures([one.state() for one in found.servers])
            if [one.steps for _, one in sorted(told.figures.items())] == [3, 4]:
                break
            time.sleep(0.02)
        assert [one.rows for _, one in sorted(told.figures.items())] == [24, 32]
        assert told.servers == 2
        for client in clients:
            client.leave()


def test_lines_are_printed_as_long_as_servers_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader is a stand-in: it fails as servers do that begin, then answers."""
    from refluid.core.errors import EnforceNotMet
    from refluid.pserver import reading

    asked: list[Any] = []

    class Reader:
        def __init__(self, servers: Any, patience: float) -> None:
            asked.append((tuple(servers), patience))
            if len(asked) < 3:
                raise EnforceNotMet("server didn't answer")

        def __enter__(self) -> Reader:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def state(self) -> list[dict[str, Any]]:
            steps = 10.0 * len(asked)
            asked.append(None)
            told = {"0": [steps, 4 * steps, steps, *NO_FIGURES[3:]]}
            return [{"figures": told, "rows": {"emb": 7}, "bytes": {"emb": 100}}]

    monkeypatch.setattr(reading, "TableReader", Reader)
    monkeypatch.setattr("refluid.collective.launch.servers_live._LOOK", 0.01)
    out = io.StringIO()
    with live_servers(["a:1", "b:2"], out, every=0.02):
        until = time.monotonic() + 20
        while "samples/s" not in out.getvalue() and time.monotonic() < until:
            time.sleep(0.01)
    lines = out.getvalue().splitlines()
    assert lines[0].startswith("refluid: 4 samples/s of 1 trainers, 0 steps wait")
    assert lines[0].endswith("7 rows, 100 bytes on 1 servers") and asked[0][0] == ("a:1", "b:2")
