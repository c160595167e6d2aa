"""Ctrl-C at each call of what a trainer's step asks of its link: the next steps are sent whole."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from refluid.comm.servers import LOOKED_UP
from refluid.pserver.connecting import Connection
from refluid.pserver.geo import DeltaLink
from refluid.pserver.layout import TrainingMode
from refluid.pserver.sending import Merging, SendingLink
from tests.interrupting import InterruptedAt, interrupted_at_each_call, interruptible
from tests.pserver.tables import cluster, divided

PATIENCE = 60.0


class Noting:
    """Stands for the client of a link: notes what is pushed."""

    def __init__(self) -> None:
        self.figures = SimpleNamespace(lag=None)
        self.pushed: list[float] = []

    def push(self, given: Mapping[str, Tensor], steps: int, *, wants: bool) -> dict[str, Tensor]:
        self.pushed += [float(given["w"])] * steps
        return {}

    def pull(self) -> dict[str, Tensor]:
        return {}

    def leave(self) -> None:
        """Nobody is told."""


def ends(work: Callable[[], object]) -> None:
    """Fails where the call, in a thread that no Ctrl-C reaches, doesn't end."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert not thread.is_alive()


def test_each_step_that_was_handed_on_is_pushed_once() -> None:
    client: Any = Noting()
    link = SendingLink(client, Merging(most=1))
    step = {"w": torch.tensor(1.0)}
    for at in interrupted_at_each_call(lambda: link.send(step)):
        ends(lambda: link.send({"w": torch.tensor(2.0)}))
        ends(link.flush)
        assert client.pushed[-1] == 2.0 and client.pushed in ([2.0], [1.0, 2.0]), at
        client.pushed.clear()
    assert at > 5
    ends(link.close)


def test_what_geo_exchanges_is_counted_once_whenever_ctrl_c_comes() -> None:
    """A step changes its own before the link is told: an exchange has it then, or the next one."""
    with cluster(divided(trainers=1, mode=TrainingMode.GEO)) as found:
        link = DeltaLink(found.client(), 2)
        values = {"w": torch.zeros(3, 1), "emb": torch.zeros(1000, 4)}
        ids, total = torch.tensor([1, 5]), 0.0
        link.receive(values, wait=True)

        def told() -> None:
            link.send({**values, f"emb{LOOKED_UP}0": ids})
            link.receive(values, wait=False)

        def step() -> None:
            nonlocal total
            values["w"] += 1.0
            values["emb"][ids] += 1.0
            total += 1.0
            told()

        step()
        parts = "/pserver/geo.py", "/concurrent/futures/", "/threading.py"
        at, arrived = 0, True
        while arrived:
            interrupted = InterruptedAt(at, parts)
            with interruptible(), suppress(KeyboardInterrupt), interrupted:
                step()
                step()
            arrived = interrupted.arrived
            ends(step)
            ends(step)
            at += 1
        ends(link.flush)
        assert at > 30
        assert link.client.pull()["w"].flatten().tolist() == [total] * 3
        rows = link.client.rows("emb", torch.arange(8))[:, 0].tolist()
        assert rows == [0, total, 0, 0, 0, total, 0, 0]
        link.close()


@pytest.mark.parametrize("mode", [TrainingMode.SYNC, TrainingMode.ASYNC, TrainingMode.GEO])
def test_a_trainer_that_is_interrupted_as_it_ends_tells_the_servers_when_asked_again(
    mode: TrainingMode,
) -> None:
    split = divided(trainers=2, mode=mode)
    with cluster(split) as found:
        watching = found.client(1)
        at, arrived = 0, True
        while arrived:
            connection = Connection(split)
            connection._client = lambda: found.client(0)  # type: ignore[method-assign]
            connection.open()
            interrupted = InterruptedAt(at, ("/pserver/", "/threading.py"))
            with interruptible(), suppress(KeyboardInterrupt), interrupted:
                connection.close()
            arrived = interrupted.arrived
            ends(connection.close)
            assert [one["trainers"] for one in watching.state()] == [[1]], at
            at += 11
        assert at > 30 and not connection.is_open
