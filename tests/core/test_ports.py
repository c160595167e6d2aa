"""Ports that are free stay so until their owner listens."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from refluid.core import ports
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_endpoints, free_port


def test_outgoing_connections_get_none_of_them() -> None:
    """One of the system's was taken between its choice and its use."""
    for count in (1, 4):
        begin = free_port(count)
        for port in range(begin, begin + count):
            assert not 32_768 <= port <= 60_999 or not _usual_range()
            with socket.socket() as one:
                one.bind(("", port))


def _usual_range() -> bool:
    found = Path("/proc/sys/net/ipv4/ip_local_port_range")
    return found.is_file() and found.read_text().split() == ["32768", "60999"]


def test_what_is_taken_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    begin = free_port(3)
    monkeypatch.setattr(ports, "_beginnings", lambda _: [begin, begin + 1])
    with socket.socket() as owner:
        owner.bind(("127.0.0.1", begin))
        owner.listen()
        assert [free_port() for _ in range(20)] == [begin + 1] * 20
        assert free_endpoints(2) == [f"127.0.0.1:{begin + 1}", f"127.0.0.1:{begin + 2}"]
    monkeypatch.setattr(ports, "_beginnings", lambda _: [begin])
    with socket.socket() as owner:
        owner.bind(("", begin + 1))
        with pytest.raises(EnforceNotMet, match="no 2 neighbouring ports that are free"):
            free_port(2)


@pytest.mark.parametrize("told", ["1024 65535", "15000 61000", "garbage", ""])
def test_every_range_leaves_enough(
    told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "range").write_text(told)
    monkeypatch.setattr(ports, "_EPHEMERAL", tmp_path / "range")
    for count in (1, 2, 5):
        found = ports._beginnings(count)
        assert len(found) >= 1000
        taken = {begin + one for begin in found for one in range(count)}
        assert max(taken) <= 65_535
        if told.startswith("15000"):
            assert not taken & set(range(15_000, 61_001))


def test_more_neighbours_than_there_are() -> None:
    with pytest.raises(EnforceNotMet, match="no 70000 neighbouring ports"):
        free_port(70_000)
