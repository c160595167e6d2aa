"""Which processes a job has on which hosts, and what each finds in its environment."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass

from refluid.core.errors import EnforceNotMet

_NAME, _VALUE = 40, 45
_AGAIN = 0.2


@dataclass(frozen=True)
class Cluster:
    """A job: hosts in order, this one among them, and what runs on each.

    devices: of each process of a host, as FLAGS_selected_gpus says; empty strings for none.
    """

    hosts: tuple[str, ...]
    host: str
    port: int
    devices: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.host not in self.hosts:
            raise EnforceNotMet(
                f"this host, {self.host}, is none of those of the job ({', '.join(self.hosts)}): "
                "--node_ip says which one it is"
            )
        if len(set(self.hosts)) < len(self.hosts):
            raise EnforceNotMet(f"a host is named twice: {', '.join(self.hosts)}")
        if not 0 < self.port <= 65535 - self.per_host:
            raise EnforceNotMet(f"--started_port {self.port} leaves no ports for {self.per_host}")

    @property
    def per_host(self) -> int:
        """How many processes each host has."""
        return len(self.devices)

    @property
    def size(self) -> int:
        """How many processes the job has."""
        return len(self.hosts) * self.per_host

    @property
    def number(self) -> int:
        """Which of the hosts this one is."""
        return self.hosts.index(self.host)

    @property
    def meeting(self) -> str:
        """Where launchers of several hosts meet: the port after those of the first host."""
        return f"{self.hosts[0]}:{self.port + self.per_host}"

    @property
    def endpoints(self) -> list[str]:
        """Of all trainers, by rank."""
        ports = range(self.port, self.port + self.per_host)
        return [f"{host}:{port}" for host in self.hosts for port in ports]

    def environment(self, local_rank: int) -> dict[str, str]:
        """What a process of this host finds, as Fluid's launcher sets it."""
        rank = self.number * self.per_host + local_rank
        found = {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_CURRENT_ENDPOINT": self.endpoints[rank],
            "PADDLE_TRAINERS_NUM": str(self.size),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(self.endpoints),
        }
        if self.devices[local_rank]:
            found["FLAGS_selected_gpus"] = self.devices[local_rank]
        return found


def table(cluster: Cluster) -> str:
    """The environment of this host's first process, as Fluid's launcher prints it."""
    width = _NAME + _VALUE + 2
    rows = [
        f"Local start {cluster.per_host} processes. First process distributed environment info "
        "(Only For Debug):",
        f"    +{'=' * width}+",
        f"    |{'Distributed Envs':>{_NAME}}  {'Value':^{_VALUE}}|",
        f"    +{'-' * width}+",
    ]
    for name, value in cluster.environment(0).items():
        shown = value if len(value) <= _VALUE else f" ... {value[5 - _VALUE :]}"
        rows.append(f"    |{name:>{_NAME}}  {shown:^{_VALUE}}|")
    return "\n".join([*rows, f"    +{'=' * width}+"])


def require_free(cluster: Cluster) -> None:
    """EnforceNotMet naming the first of this host's ports at which somebody listens already."""
    for local_rank in range(cluster.per_host):
        port = cluster.port + local_rank
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((cluster.host, port))
            except OSError as error:
                raise EnforceNotMet(
                    f"trainer {local_rank} of this host can't listen at {cluster.host}:{port}: "
                    f"{error.strerror or error}. --started_port says at which port to begin"
                ) from error


def require_first(cluster: Cluster, seconds: float) -> None:
    """Returns when the first host's launcher is there; EnforceNotMet where it doesn't come."""
    if not cluster.number:
        return
    host, _, port = cluster.meeting.rpartition(":")
    until, why = time.monotonic() + seconds, "nobody was asked"
    while (left := until - time.monotonic()) > 0:
        try:
            with socket.create_connection((host, int(port)), left):
                return
        except OSError as error:
            why = error.strerror or str(error)
        time.sleep(_AGAIN)
    raise EnforceNotMet(
        f"the launcher of the first host did not come to {cluster.meeting} within {seconds:g} "
        f"s: {why}. Start the same command there; --ips names the hosts, in one order on all"
    )
