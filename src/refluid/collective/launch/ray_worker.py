"""What Ray runs on a host: it keeps the process of one trainer."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from refluid.collective.launch.worker import end_with_parent
from refluid.core.flags import whole_environment
from refluid.core.ports import free_port

_PATIENCE = 5.0


class RayWorker:
    """One trainer's process, which ends when this does."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        home = Path(tempfile.mkdtemp(prefix="refluid-"))
        self._log, self._servers = home / "log", home / "servers"
        self._read = 0

    def place(self) -> tuple[str, int, str]:
        """The host's address, a port of it that is free, and the node."""
        import ray

        host, node = str(ray.util.get_node_ip_address()), ray.get_runtime_context().get_node_id()
        return host, free_port(host=host), node

    def tell(self, servers: Sequence[str]) -> None:
        """Says where servers of tables are, to the process that runs and to those that follow."""
        aside = self._servers.with_suffix(".new")
        aside.write_text("\n".join(servers))
        aside.replace(self._servers)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        """Begins `refluid run` with these arguments; its log goes on where there is one."""
        run = [sys.executable, "-u", "-m", "refluid.cli.main", "run", *arguments]
        told = {"REFLUID_SERVER_ADDRESSES": str(self._servers), **environment}
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                run,
                env={**whole_environment(), "PYTHONPATH": _path(), **told},
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=end_with_parent,
            )

    def poll(self) -> tuple[int | None, str]:
        """The status where it has ended, and what it has written since it was last asked."""
        status = None if self._process is None else self._process.poll()
        data = b""
        if self._log.is_file():
            with self._log.open("rb") as log:
                log.seek(self._read)
                data = log.read()
        self._read += len(data)
        return status if status is None or status >= 0 else 128 - status, data.decode(
            errors="replace"
        )

    def stop(self) -> None:
        """Ends it."""
        if self._process is None or self._process.poll() is not None:
            return
        for how in (signal.SIGTERM, signal.SIGKILL):
            os.killpg(self._process.pid, how)
            try:
                self._process.wait(_PATIENCE)
            except subprocess.TimeoutExpired:
                continue
            return


def _path() -> str:
    return os.pathsep.join(one for one in sys.path if one)
