"""Jobs of `faulted.py` on two emulated hosts, by a launcher on each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.hosts import Hosts

HERE = Path(__file__).resolve().parent
PORT, EACH = 6170, 2
# Seconds: one waits for another; all are waited for.
EXCHANGE, MEETING = 5, 60


@dataclass
class FaultyRun:
    """A job of a launcher on each emulated host."""

    hosts: Hosts
    folder: Path
    restarts: int
    launchers: dict[int, subprocess.Popen[Any]] = field(default_factory=dict)

    def start(self, host: int, addresses: list[str] | None = None) -> None:
        """Begins the launcher of a host. addresses: of all hosts, as it is told."""
        told = {
            "PYTHONPATH": os.pathsep.join(one for one in sys.path if one),
            "OMP_NUM_THREADS": "1",
            "FLAGS_refluid_exchange_seconds": str(EXCHANGE),
            "FLAGS_refluid_meeting_seconds": str(MEETING),
        }
        said = ["-m", "refluid.cli.main", "launch", "--nproc_per_node", str(EACH), "--quiet"]
        said += ["--ips", ",".join(addresses or self.hosts.addresses)]
        said += ["--node_ip", self.hosts.addresses[host], "--max_restarts", str(self.restarts)]
        said += ["--started_port", str(PORT), "--log_dir", str(self.folder / f"log{host}")]
        said += [str(HERE / "faulted.py"), str(self.folder)]
        with (self.folder / f"launcher.{host}").open("ab") as log:
            self.launchers[host] = self.hosts.start(
                host, [sys.executable, *said], told, stdout=log, stderr=log, cwd=self.folder
            )

    def trainer(self, rank: int) -> int:
        """The process id of a trainer."""
        return int((self.folder / f"{rank}.pid").read_text())

    def steps(self, rank: int) -> dict[int, str]:
        """The loss of each step that a trainer has made, what it made last."""
        path = self.folder / f"{rank}.steps"
        lines = path.read_text().splitlines() if path.is_file() else []
        return {int(step): loss for step, _, loss in (one.partition(" ") for one in lines)}

    def said(self, host: int) -> str:
        """What a host's launcher and trainers have said."""
        logs = sorted(self.folder.glob(f"log{host}/workerlog.*"))
        paths = [self.folder / f"launcher.{host}", *logs]
        return "".join(one.read_text(errors="replace") for one in paths if one.is_file())

    def end(self) -> None:
        for host, one in self.launchers.items():
            for left in self.hosts.processes(host):
                os.kill(left, signal.SIGKILL)
            one.wait()
