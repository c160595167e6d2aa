"""A server that is asked to end (SIGTERM) says by its status whether its job was over."""

from __future__ import annotations

import os
import signal
import threading

import pytest

import refluid.fluid as fluid
from refluid.core.ports import free_endpoints
from refluid.pserver.layout import TrainingMode
from refluid.pserver.service import Service
from refluid.pserver.serving import Serving
from refluid.pserver.split import Split, SplitOptions, split
from refluid.pserver.table_client import TableClient
from tests.pserver.tables import network


def _split() -> Split:
    main, startup, _ = network()
    return split(main, startup, free_endpoints(1), 1, 0, TrainingMode.ASYNC, SplitOptions(least=1))


def _serve(parts: Split, **how: threading.Event) -> None:
    """What a server's process does, in this thread: signals come to the main one."""
    (address,) = parts.layout.servers
    scope = fluid.Scope()
    fluid.Executor().run(parts.startup(address), scope=scope)
    Serving(parts.program(address), parts.side, **how).run(scope)


def _comes(client: TableClient, leaves: bool) -> None:
    """A trainer comes and leaves, or stays, and the server gets the signal."""
    client.enter()
    if leaves:
        client.leave()
    else:
        os.kill(os.getpid(), signal.SIGTERM)


_TO_THE_MAIN_THREAD = pytest.mark.skipif(
    threading.current_thread() is not threading.main_thread(), reason="signals come elsewhere"
)


@_TO_THE_MAIN_THREAD
@pytest.mark.parametrize("leaves", [True, False])
def test_the_status(leaves: bool) -> None:
    """143 where a trainer is there: a launcher starts it again, and others see that it failed."""
    parts, before = _split(), signal.getsignal(signal.SIGTERM)
    client = TableClient(parts.layout, 0, patience=20.0)
    trainer = threading.Thread(target=_comes, args=(client, leaves), daemon=True)
    trainer.start()
    if leaves:
        _serve(parts)
    else:
        with pytest.raises(SystemExit) as caught:
            _serve(parts)
        assert caught.value.code == 128 + signal.SIGTERM
    trainer.join(20)
    client.servers.close()
    assert not trainer.is_alive()
    assert signal.getsignal(signal.SIGTERM) == before


@_TO_THE_MAIN_THREAD
def test_it_can_be_asked_as_soon_as_it_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainers may come as the service starts: none finds a server that just dies."""
    start, ended = Service.start, threading.Event()

    def starts(service: Service) -> None:
        start(service)
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(Service, "start", starts)
    former = signal.signal(signal.SIGTERM, lambda *_: ended.set())  # it would just die
    try:
        with pytest.raises(SystemExit) as caught:
            _serve(_split(), ended=ended)
    finally:
        signal.signal(signal.SIGTERM, former)
    assert caught.value.code == 128 + signal.SIGTERM
