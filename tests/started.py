"""Processes of Python that tests start, without each importing torch: two of three seconds.

They are forked from one that has only imported torch (`tests.forking`), one for each environment
that Python or torch's libraries read when they begin. Tests of what is imported when, of signals,
of terminals and of what is left when Python goes start their processes by `subprocess`.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.forking import STATUS

# What is read as a process begins, before anything could be changed.
_EARLY = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "ONEDNN_", "DNNL_", "ATEN_", "TORCH")
_EARLY += ("CUDA_", "NVIDIA_", "MALLOC_", "GLIBC_", "LD_", "PYTHON", "LC_", "LANG", "TZ")
_LOCK = threading.Lock()
_sources: dict[Any, socket.socket] = {}


class Started:
    """A process, as `subprocess.Popen` has it."""

    def __init__(self, pid: int, ends: int, arguments: Sequence[str]) -> None:
        self.pid, self.returncode, self.args = pid, None, arguments
        self._ends = ends

    returncode: int | None

    def poll(self) -> int | None:
        """Its status, None while it runs."""
        try:
            return self.wait(0)
        except subprocess.TimeoutExpired:
            return None

    def wait(self, timeout: float | None = None) -> int:
        """Its status; TimeoutExpired where it runs on."""
        if self.returncode is None:
            if not select.select([self._ends], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(list(self.args), timeout or 0.0)
            told = os.read(self._ends, STATUS.size)
            os.close(self._ends)
            (self.returncode,) = STATUS.unpack(told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing where it has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def start(
    *arguments: str,
    folder: Path | str = ".",
    environment: Mapping[str, str] | None = None,
    streams: Sequence[int] = (0, 1, 2),
    nth: int = 0,
    session: bool = False,
) -> Started:
    """Begins `python ARGUMENTS`, with an own session if asked.

    environment: all of it, this process's where None. nth: of several that shall not share what
    Python and numpy draw as they begin (the order of sets): each number has its own source.
    """
    told = dict(os.environ if environment is None else environment)
    asked = {
        "arguments": arguments,
        "folder": str(Path(folder).absolute()),
        "environment": told,
        "deaf": signal.getsignal(signal.SIGINT) == signal.SIG_IGN,
        "session": session,
    }
    early = {name: value for name, value in told.items() if name.startswith(_EARLY)}
    ends, ending = os.pipe()
    with tempfile.TemporaryFile("w+") as text, _LOCK:
        json.dump(asked, text)
        text.flush()
        text.seek(0)
        source = _source((nth, *sorted(early.items())), told)
        socket.send_fds(source, [b" "], [text.fileno(), *streams, ending])
        (pid,) = STATUS.unpack(source.recv(STATUS.size))
    os.close(ending)
    return Started(pid, ends, arguments)


def run(
    *arguments: str,
    folder: Path | str = ".",
    environment: Mapping[str, str] | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """What `python ARGUMENTS` says and how it ends; its output is read, it is given no input."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        with open(os.devnull) as nothing:
            streams = [nothing.fileno(), out.fileno(), errors.fileno()]
            process = start(*arguments, folder=folder, environment=environment, streams=streams)
        status = process.wait(600)
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode())
    ran = subprocess.CompletedProcess([sys.executable, *arguments], status, *said)
    if check:
        ran.check_returncode()
    return ran


def refluid(
    *arguments: str,
    folder: Path | str = ".",
    environment: Mapping[str, str] | None = None,
    check: bool = False,
) -> subprocess.CompletedProcess[str]:
    """The same of the command `refluid ARGUMENTS`."""
    command = ("-m", "refluid.cli.main", *arguments)
    return run(*command, folder=folder, environment=environment, check=check)


def _source(key: Any, environment: Mapping[str, str]) -> socket.socket:
    """Where processes come from that begin alike."""
    if key not in _sources:
        own, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        subprocess.run(
            [sys.executable, str(Path(__file__).with_name("forking.py")), str(other.fileno())],
            env=dict(environment),
            pass_fds=[other.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        other.close()
        _sources[key] = own
        atexit.register(own.close)
    return _sources[key]
