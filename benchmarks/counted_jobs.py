"""Jobs of `counting.py` on emulated hosts, and whether each of their updates is there once."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hosts import Hosts
from refluid.collective.launch.servers import ServerJob

HERE = Path(__file__).resolve().parent
# Seconds of a trainer's lease, milliseconds for which servers are asked.
PORT, LEASE, DEADLINE = 6170, 4, 30_000
SERVERS, TRAINERS = (0, 1), (2, 3)
# Where a server more runs, and how many hosts that makes.
MORE, HOSTS = 4, 5


@dataclass
class CountingRun:
    """A job on emulated hosts: processes by host.

    slower: all that is waited for may take so many times as long, on a machine that others use.
    """

    hosts: Hosts
    mode: str
    folder: Path
    options: tuple[str, ...] = ()
    settings: Mapping[str, str] = field(default_factory=dict)
    steps: int = 150
    slower: float = 1.0
    processes: dict[int, subprocess.Popen[Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.addresses = [f"{one}:{PORT}" for one in self.hosts.addresses]
        self.job = ServerJob(tuple(self.addresses[:2]), tuple(self.addresses[2:4]))

    def start(self, host: int) -> None:
        """Begins, or begins again, what a host runs."""
        address = self.addresses[host]
        told = {
            **self._environment(host),
            "REFLUID_SERVER_CHECKPOINTS": str(self.folder / "kept"),
            "REFLUID_SERVER_LOG": "1",
            "FLAGS_worker_update_interval_secs": str(round(LEASE * self.slower)),
            "FLAGS_rpc_deadline": str(round(DEADLINE * self.slower)),
            **self.settings,
        }
        said = [sys.executable, "-m", "benchmarks.counting", str(self.folder), self.mode]
        name = "serverlog.more" if host == MORE else self.job.name(address)
        with (self.folder / f"{name}.txt").open("ab") as log:
            self.processes[host] = self.hosts.start(
                host,
                [*said, "--steps", str(self.steps), *self.options],
                told,
                stdout=log,
                stderr=log,
                cwd=HERE.parent,
            )

    def _environment(self, host: int) -> dict[str, str]:
        """What a host's processes find; a server more is seen as one of the first ones."""
        more = host == MORE
        told = {"REFLUID_SERVER_JOINS": self.addresses[MORE]} if more else {}
        return {
            **self.job.environment(self.addresses[SERVERS[-1] if more else host]),
            **told,
            "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
            "OMP_NUM_THREADS": "1",
            "REFLUID_PLAIN_NETWORK": "1",
            "FLAGS_refluid_near_sockets": "1",  # where all are on one host
        }

    def asked(self, *said: str) -> str:
        """What `refluid servers` says on the host of a trainer about the job's servers."""
        command = [sys.executable, "-m", "refluid.cli.main", "servers"]
        host, server = TRAINERS[0], self.addresses[SERVERS[-1]]
        told = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        with self.hosts.start(
            host, [*command, server, *said], self._environment(host), **told
        ) as process:
            return str(process.communicate(timeout=60)[0])

    def listed(self) -> list[int]:
        """The numbers of the job's servers."""
        found = re.findall(r"^\s*(\d+)\s+\S+:\d+", self.asked(), re.MULTILINE)
        return [int(one) for one in found]

    def ready(self, host: int) -> float:
        """When the server that runs on a host was about to serve, 0.0 before."""
        path = self.folder / f"server-{self.processes[host].pid}.json"
        return float(json.loads(path.read_text())["ready"]) if path.is_file() else 0.0

    def signal(self, host: int, what: signal.Signals) -> None:
        """Sends it to what a host runs: `ip netns exec` and `unshare` have become it."""
        self.processes[host].send_signal(what)

    def told(self, trainer: int) -> dict[str, Any]:
        """What a trainer has told last."""
        path = self.folder / f"{trainer}.json"
        found: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
        return found

    def logs(self) -> str:
        return "".join(
            f"--- {one.name}\n{one.read_text()[-1500:]}\n"
            for one in sorted(self.folder.glob("*log.*"))
        )

    def end(self) -> None:
        for one in self.processes.values():
            one.kill()
            one.wait()


def complaint(mode: str, steps: int, found: Mapping[int, dict[str, Any]], *, alone: bool) -> str:
    """What is lost or doubled; empty where all updates are there once.

    found: what each trainer told last. In synchronous training a round's updates have the mean 1,
    and with GEO each trainer's have its share.
    """
    ended = {number: one for number, one in found.items() if one.get("ended")}
    if not ended:
        return "no trainer came to its end"
    share = 0.5 if mode == "geo" else 1.0
    own = {number: one["own"] for number, one in ended.items()}
    last = max(ended.values(), key=lambda one: one["moment"])
    if any(len(one) != 1 for one in own.values()):
        return f"rows differ within: {own}"
    total = sum(one[0] for one in own.values())
    if mode != "sync" and any(one != [-steps * share] for one in own.values()):
        return f"{-steps * share} are a trainer's own updates, not {own}"
    if len(ended) == len(found) or mode == "sync":
        low = high = total
        if mode == "sync":
            low, high = (-2 * steps if alone else -steps), -steps
    else:  # one died: what it had told is there, but for what was under way
        (dead,) = (one["steps"] for number, one in found.items() if number not in ended)
        low, high = total - share * (dead + 1), total - share * max(0, dead - 45)
    seen = {*last["shared"], *last["dense"]}
    if not all(low <= one <= high for one in seen):
        return f"all updates are between {low} and {high}, not {sorted(seen)}"
    one_push = 0 if len(ended) == len(found) else 25
    if max(seen) - min(seen) > one_push:
        return f"parameters differ: {sorted(seen)}"
    if mode == "sync" and len(ended) == len(found) and total != min(seen):
        return f"{sorted(seen)} aren't the sum of {own}"
    return ""


def pause(since: float, times: Sequence[float]) -> float:
    """How long the first trainer stood still at most after a moment, beyond its usual step."""
    later = [one for one in times if one > since]
    before = [one for one in times if one <= since][-1:]
    gaps = [after - first for first, after in zip([*before, *later], later, strict=False)]
    return max(gaps, default=0.0)
