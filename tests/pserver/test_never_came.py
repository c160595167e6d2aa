"""Trainers that die before they enter: servers go on, and end, without them."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch

import refluid.fluid as fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_endpoints
from refluid.pserver.checkpoints import ServerCheckpoints
from refluid.pserver.connecting import Connection
from refluid.pserver.layout import TrainingMode
from refluid.pserver.members import NOBODY, TrainerRoll
from refluid.pserver.messages import Kind, TableMessage
from refluid.pserver.refusals import NotEntered
from refluid.pserver.server_making import table_server
from refluid.pserver.service import Service
from refluid.pserver.split import SplitOptions, split
from tests.pserver.tables import at_once, cluster, divided, network


@pytest.mark.parametrize("restarted", [False, True])
def test_a_trainer_that_never_comes_is_not_waited_for_for_ever(
    restarted: bool, tmp_path: Path
) -> None:
    """As one that dies while it starts; it may still come later."""
    with cluster(divided(trainers=3, mode=TrainingMode.SYNC)) as found:
        server, time = found.servers[0], [0.0]
        kept = ServerCheckpoints(server, tmp_path, logs=True)
        kept.restore()
        server.members._clock = lambda: time[0]
        server.tick()
        time[0] += 2 * server.members.patience  # servers wait for the first one as for ever
        server.tick()
        assert server.members.awaited == {0, 1, 2}
        clients = [found.client(number) for number in range(2)]
        server.tick()
        grads = {"w@GRAD": torch.ones(3, 1)}
        pushes = [threading.Thread(target=client.push, args=[grads]) for client in clients]
        for push in pushes:
            push.start()
        while not all(map(server.applying.holds, range(2))):
            pass
        time[0] += 0.9 * server.members.patience
        for client in clients:
            client.ask_all(Kind.BEAT)
        server.tick()
        assert all(map(server.applying.holds, range(2)))
        time[0] += 0.2 * server.members.patience
        for client in clients:
            client.ask_all(Kind.BEAT)
        server.tick()
        for push in pushes:
            push.join(20)
        assert clients[0].pull()["w"].unique().tolist() == [-1.0]
        kept.close()
        if restarted:
            server = found.restarted()
            server.members._clock = lambda: time[0]
            again = ServerCheckpoints(server, tmp_path, logs=True)
            assert again.restore()
            again.close()
            assert clients[0].pull()["w"].unique().tolist() == [-1.0]
        assert server.members.awaited == {0, 1}
        late = found.client(2)
        at_once(*(partial(client.push, grads) for client in [*clients, late]))
        assert late.pull()["w"].unique().tolist() == [-2.0]
        clients[0].leave()
        clients[1].leave()
        assert not server.over
        late.leave()
        assert server.over


def test_the_log_says_who_is_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    """Once, and how long: as FLAGS_rpc_deadline says, though that is less than a lease."""
    time = [0.0]
    roll = TrainerRoll(4, 30.0, lambda: time[0], 8.0)
    for trainer in (0, 2):
        roll.enter(trainer, 5)
    roll.expire()
    for when in (3.9, 4.1, 5.0, 7.9):
        time[0] = when
        assert roll.expire() == []
    (waits,) = caplog.messages
    assert waits.startswith("trainer 1, 3 hasn't come (0, 2 of 4 here, the first one for 4 s)")
    assert "until that has been 8 s (FLAGS_rpc_deadline)" in waits
    time[0] = 8.0
    assert roll.expire() == [1, 3]
    assert roll.awaited == {0, 2}
    _, never = caplog.messages
    assert never.startswith("trainer 1, 3 never came in 8 s (FLAGS_rpc_deadline, in milliseconds")
    assert "0, 2 of 4 here" in never and "PADDLE_TRAINER_ID" in never
    assert roll.expire() == [] and len(caplog.messages) == 2
    time[0] = 30.0  # who is here counts for a lease all the same
    assert roll.there == {0, 2}


def test_a_server_ends_though_a_trainer_never_came() -> None:
    with cluster(divided(trainers=2)) as found:
        server, time = found.servers[0], [0.0]
        server.members._clock = lambda: time[0]
        client = found.client()
        server.tick()
        client.leave()
        assert not server.over
        for _ in range(2):  # the trainer may come for as long again
            assert not server.over
            time[0] += server.members.patience + 1.0
            server.tick()
        assert server.over
        nobody = TableMessage(Kind.PUSH, 1, NOBODY, 1, server.job)
        with pytest.raises(NotEntered):
            server.answer(nobody)


def test_a_trainer_leaves_at_its_end_though_a_server_never_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The other servers need not find out by its silence."""
    at_end: list[Callable[[], None]] = []
    monkeypatch.setattr("atexit.register", at_end.append)
    main, startup, _ = network()
    there, nobody = free_endpoints(2)
    parts = split(main, startup, [there, nobody], 1, 0, TrainingMode.ASYNC, SplitOptions(least=1))
    scope = fluid.Scope()
    fluid.Executor().run(parts.startup(there), scope=scope)
    server = table_server(parts.program(there), parts.layout, scope, None)
    service = Service(server, there)
    service.start()
    fluid.set_flags({"FLAGS_rpc_deadline": 300})
    try:
        with pytest.raises(EnforceNotMet, match="didn't answer"):
            Connection(parts).open()
        assert not server.over
        (leave,) = at_end
        leave()
        assert server.over
    finally:
        fluid.set_flags({"FLAGS_rpc_deadline": 180000})
        service.stop(0.0)
