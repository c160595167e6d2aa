"""Emulated hosts: network namespaces on a bridge, each behind a link of so many bits a second.

Needs root, `ip` and `tc`. Processes of one host reach each other over its loopback, unshaped.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

_RATE = "1gbit"
_numbers = itertools.count()


def allowed() -> bool:
    """Whether hosts can be emulated here."""
    if os.geteuid() or not all(map(shutil.which, ("ip", "tc", "unshare"))):
        return False
    try:
        with Hosts(1):
            return True
    except OSError:
        return False


class Hosts:
    """So many hosts, each with a name, an address and a link of that rate; gone after the block."""

    def __init__(self, count: int, rate: str = _RATE) -> None:
        self._mark = f"r{os.getpid() % 100000}{next(_numbers)}"
        self._rate, self._bridge = rate, f"{self._mark}b"
        self.names = [f"{self._mark}h{number}" for number in range(count)]
        subnet = os.getpid() % 250
        self.addresses = [f"10.77.{subnet}.{number + 1}" for number in range(count)]

    def __enter__(self) -> Hosts:
        try:
            _ip("link", "add", self._bridge, "type", "bridge")
            _ip("link", "set", self._bridge, "up")
            for name, address in zip(self.names, self.addresses, strict=True):
                self._add(name, address)
        except BaseException:
            self._remove()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._remove()

    def _add(self, name: str, address: str) -> None:
        """A host whose link has two ends: `NAMEo` outside, on the bridge, and eth0 inside."""
        outside = f"{name}o"
        _ip("netns", "add", name)
        _ip("link", "add", outside, "type", "veth", "peer", "name", "eth0", "netns", name)
        _ip("link", "set", outside, "master", self._bridge, "up")
        for one in ("lo", "eth0"):
            _ip("-n", name, "link", "set", one, "up")
        _ip("-n", name, "addr", "add", f"{address}/24", "dev", "eth0")
        shape = ["root", "tbf", "rate", self._rate, "burst", "128kb", "latency", "20ms"]
        _run("tc", "qdisc", "add", "dev", outside, *shape)
        _run("tc", "-n", name, "qdisc", "add", "dev", "eth0", *shape)

    def _remove(self) -> None:
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
        subprocess.run(["ip", "link", "del", self._bridge], capture_output=True, check=False)

    def start(
        self, host: int, command: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[Any]:
        """Begins a process on a host, which has the host's name as its own."""
        name = self.names[host]
        alone = ["unshare", "-u", "sh", "-c", f'hostname {name} && exec "$@"', "sh", *command]
        told = {**os.environ, **environment}
        return subprocess.Popen(["ip", "netns", "exec", name, *alone], env=told, **options)

    def processes(self, host: int) -> list[int]:
        """Those that run on a host."""
        found = _run("ip", "netns", "pids", self.names[host])
        return [int(one) for one in found.split()]

    def sent(self, host: int) -> int:
        """Bytes that a host has sent over its link, with all headers."""
        path = Path(f"/sys/class/net/{self.names[host]}o/statistics/rx_bytes")
        return int(path.read_text())

    def cut(self, host: int) -> None:
        """Takes the link of a host down."""
        _ip("link", "set", f"{self.names[host]}o", "down")

    def mend(self, host: int) -> None:
        """Has the link of a host up again."""
        _ip("link", "set", f"{self.names[host]}o", "up")


def _ip(*arguments: str) -> None:
    _run("ip", *arguments)


def _run(*command: str) -> str:
    """What a command says; OSError where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout


class OneHost(Hosts):
    """The same number of hosts as addresses of this one's loopback; no link of them can be cut."""

    def __init__(self, count: int) -> None:
        self.addresses = [f"127.0.0.{number + 1}" for number in range(count)]

    def __enter__(self) -> OneHost:
        return self

    def _remove(self) -> None:
        """Nothing was made."""

    def start(
        self, host: int, command: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> subprocess.Popen[Any]:
        del host
        return subprocess.Popen(command, env={**os.environ, **environment}, **options)
