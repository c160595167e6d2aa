"""Servers of this host are called without TCP: the same answers, refusals, and nobody without."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port
from refluid.core.selected_rows import SelectedRows
from refluid.pserver import near_sockets, service, wire
from refluid.pserver.near_sockets import near_connection, near_listener, near_name
from refluid.pserver.service import Service
from tests.pserver.tables import cluster, divided

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names of Linux's own")


@pytest.fixture(autouse=True)
def near() -> Iterator[None]:
    with flags.override({"FLAGS_refluid_near_sockets": True}):
        yield


def exchanged(seed: int) -> list[torch.Tensor]:
    """Rows after pushes and pulls of any sizes."""
    random, found = np.random.RandomState(seed), []
    parts = divided(2, width=int(random.choice([1, 7, 64])))
    with cluster(parts) as made:
        client = made.client()
        for _ in range(6):
            count = int(random.choice([0, 1, 100, 30_000]))
            ids = torch.from_numpy(random.randint(0, 10**6, count))
            value = torch.from_numpy(random.rand(count, parts.layout.sparse[0].width).astype("f4"))
            client.push({"emb@GRAD": SelectedRows(ids, 1000, value)})
            found.append(client.rows("emb", ids[: max(1, count // 2)]))
        client.leave()
    return found


def kinds() -> set[int]:
    """Families of the sockets that a client of two servers uses."""
    with cluster(divided(2)) as made:
        client = made.client()
        client.state()
        found = {int(one._socket.family) for idle in client.servers._idle.values() for one in idle}
        client.leave()
    return found


@pytest.mark.parametrize("seed", range(3))
def test_answers_are_those_of_tcp(seed: int) -> None:
    assert kinds() == {socket.AF_UNIX}
    near = exchanged(seed)
    fluid.set_flags({"FLAGS_refluid_near_sockets": False})
    try:
        assert kinds() == {socket.AF_INET}
        far = exchanged(seed)
    finally:
        fluid.set_flags({"FLAGS_refluid_near_sockets": True})
    assert all(torch.equal(one, other) for one, other in zip(near, far, strict=True))


def test_only_this_host_has_the_name() -> None:
    assert near_name("10.0.0.1:6174") is None
    assert near_name("127.0.0.1:6174") == "\0refluid server 127.0.0.1:6174"
    assert near_name("localhost:6174") == near_name("127.0.0.1:6174")


def test_servers_of_one_port_and_two_addresses_have_two_names() -> None:
    port = free_port()
    first, second = (near_listener(f"127.0.0.{host}:{port}") for host in (1, 2))
    assert first is not None
    assert second is not None
    with first, second, socket.socket(socket.AF_UNIX) as one:
        one.connect(near_name(f"127.0.0.2:{port}"))
        accepted, _ = second.accept()
        accepted.close()


def test_a_server_has_its_name_before_anybody_can_call_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a trainer that comes in between would call it by TCP."""
    port = free_port()
    open_then: list[bool] = []

    def listened(address: str) -> socket.socket | None:
        with socket.socket() as caller:
            open_then.append(caller.connect_ex(("127.0.0.1", port)) == 0)
        return near_listener(address)

    monkeypatch.setattr(service, "near_listener", listened)
    with cluster(divided(1)) as made:
        Service(made.servers[0], f"127.0.0.1:{port}").stop()
    assert open_then == [False, False]  # the cluster's own has another port


@pytest.mark.parametrize("taken", ["port", "name"])
def test_nothing_stays_open_of_a_server_that_cannot_listen(
    taken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with cluster(divided(1)) as made:
        address, opened = made.services[0].address, []
        create = socket.create_server
        if taken == "name":  # of a port that the kernel chooses
            monkeypatch.setattr(
                socket, "create_server", lambda *a, **b: opened.append(create(*a, **b)) or opened[0]
            )
            name = near_name(address)
            monkeypatch.setattr(near_sockets, "near_name", lambda _: name)
            address = "127.0.0.1:0"
        with pytest.raises(EnforceNotMet, match="can't listen at"):
            Service(made.servers[0], address)
        assert all(one.fileno() == -1 for one in opened) and len(opened) == (taken == "name")


@pytest.mark.skipif(not hasattr(os, "SCHED_BATCH"), reason="no such scheduling here")
def test_who_answers_does_not_take_the_processor_from_who_calls() -> None:
    if os.sched_getscheduler(0) != os.SCHED_OTHER:
        pytest.skip("these processes are scheduled otherwise, and so are their threads")
    with cluster(divided(1)) as made:
        client = made.client()
        client.state()
        numbers = [one.native_id for one in made.services[0]._threads]
        assert numbers and {os.sched_getscheduler(one) for one in numbers} == {os.SCHED_BATCH}
        assert os.sched_getscheduler(0) == os.SCHED_OTHER
        client.leave()


def test_a_server_that_begins_between_two_tries_is_called_by_its_name(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name wasn't there yet as it was looked for, and its port was a moment later."""
    tried: list[str] = []

    def late(address: str, until: float) -> socket.socket | None:
        tried.append(address)
        return near_connection(address, until) if len(tried) > 1 else None

    monkeypatch.setattr(wire, "near_connection", late)
    with cluster(divided(1)) as made, caplog.at_level(logging.WARNING, "refluid"):
        client = made.client()
        client.state()
        found = {one._socket.family for idle in client.servers._idle.values() for one in idle}
        client.leave()
    assert len(tried) > 1 and found == {socket.AF_UNIX}
    assert not [one for one in caplog.messages if "is called by TCP" in one]


def test_a_server_without_the_name_is_reached_and_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    fluid.set_flags({"FLAGS_refluid_near_sockets": False})
    with cluster(divided(1)) as made, caplog.at_level(logging.WARNING, "refluid"):
        fluid.set_flags({"FLAGS_refluid_near_sockets": True})
        for _ in range(2):
            client = made.client()
            assert client.state()[0]["pushes"] == 0
            client.leave()
        told = [one for one in caplog.messages if "is called by TCP" in one]
        assert len(told) == 1
        assert made.services[0].address in told[0]


def test_a_server_whose_queue_is_full_is_waited_for_until_the_deadline() -> None:
    address = "127.0.0.1:1"
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(near_name(address))
        listener.listen(0)
        held = []
        start = time.monotonic()
        with pytest.raises(TimeoutError, match="takes no connection"):
            for _ in range(100):
                held.append(near_connection(address, start + 0.2))
        assert time.monotonic() >= start + 0.2
        for one in held:
            one.close()


def test_a_name_that_another_process_has_is_no_servers() -> None:
    with cluster(divided(1)) as made:
        port = made.services[0].port
        with (
            socket.socket(socket.AF_UNIX) as squatter,
            pytest.raises(EnforceNotMet, match="another process has its name"),
        ):
            squatter.bind(f"\0refluid server 127.0.0.2:{port}")
            Service(made.servers[0], f"127.0.0.2:{port}")
        with socket.create_server(("127.0.0.2", port)):
            pass  # what the service held is free again


def test_the_name_goes_with_the_server() -> None:
    with cluster(divided(1)) as made:
        address = made.services[0].address
        with socket.socket(socket.AF_UNIX) as one:
            one.connect(near_name(address))
    with socket.socket(socket.AF_UNIX) as one, pytest.raises(ConnectionRefusedError):
        one.connect(near_name(address))


@pytest.mark.slow  # tests/kernels/test_compiled.py has loops that are kept
def test_a_trainer_loads_no_compiler() -> None:
    """Ids are dealt by loops that are kept: numba isn't imported once they are."""
    code = (
        "import sys, numpy as np; from refluid.kernels.rows.dealing import DealtIds;"
        "from refluid.pserver.ring import owners_of;"
        "ids = np.arange(50) % 7; found = DealtIds(ids, owners_of(['0', '1']), 2);"
        "given = np.empty((50, 1), np.int64);"
        "[found.spread(one, found.ids(one)[:, None], given) for one in found.servers()];"
        "assert (given[:, 0] == ids).all();"
        "print('numba' in sys.modules)"
    )
    for _ in range(2):
        told = subprocess.run(
            [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=os.environ
        ).stdout
    from refluid.kernels import machine_code

    if machine_code.shutil.which("cc") or machine_code.shutil.which("ld"):
        assert told.strip() == "False"
