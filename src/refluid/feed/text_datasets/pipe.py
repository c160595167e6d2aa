"""Pipe commands: the shell command that a dataset's files pass through before they are parsed."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from typing import IO

from refluid.core.errors import EnforceNotMet
from refluid.core.flags import whole_environment
from refluid.core.whole_threads import begin
from refluid.feed.text_datasets.files import unreadable

_BLOCK = 1 << 18
_SHOWN_LINES, _SHOWN_CHARACTERS = 10, 2000
# Ends the command where this process is killed: then nobody holds the other end of {fd}.
_WATCHED = """(read -r refluid </dev/fd/{fd}; kill -KILL 0) </dev/null >/dev/null 2>&1 &
refluid=$!; trap '{{ kill -KILL $refluid; wait $refluid; }} 2>/dev/null' EXIT
{command}"""


class PipeFailed(EnforceNotMet):
    """A dataset's pipe command ended with an error; names the command and the file."""


def does_nothing(command: str) -> bool:
    """Whether a command only hands on what it gets, so that no process is needed."""
    return command.strip() in ("", "cat")


class Pipe:
    """One run of a command: `stream` has its output. Close it in any case.

    source: what the command reads; it is copied by a thread. None for a command that reads by
    itself. The environment gets a fixed PYTHONHASHSEED unless there is one,
    so that `hash(str)` gives each process the same ids.
    """

    def __init__(
        self, command: str, path: str, source: IO[bytes] | None, environment: Mapping[str, str]
    ) -> None:
        self.command, self.path = command, path
        self._source = source
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._reading: BaseException | None = None
        watched, self._alive = os.pipe()
        try:
            self._process: subprocess.Popen[bytes] = subprocess.Popen(
                _WATCHED.format(fd=watched, command=command),
                shell=True,
                pass_fds=(watched,),
                stdin=subprocess.PIPE if source is not None else subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={"PYTHONHASHSEED": "0", **whole_environment(), **environment},
                start_new_session=True,
            )
        except OSError:
            os.close(self._alive)
            self._errors.close()
            raise
        finally:
            os.close(watched)
        self._feeder = threading.Thread(target=self._feed, name=f"refluid pipe {path}", daemon=True)
        begin(self._feeder)

    @property
    def stream(self) -> IO[bytes]:
        """What the command writes."""
        assert self._process.stdout is not None
        return self._process.stdout

    def _feed(self) -> None:
        to = self._process.stdin
        if self._source is None or to is None:
            return
        try:
            while block := self._source.read(_BLOCK):
                to.write(block)
        except BrokenPipeError:
            pass  # the command wants no more: `head` does so; a failure shows in its status
        except BaseException as error:
            self._reading = error
            self.kill()
        finally:
            with suppress(OSError):
                to.close()

    def finish(self) -> None:
        """Waits for the command, whose output was read. Raises PipeFailed or UnreadableFile."""
        self._feeder.join()
        status = self._process.wait()
        if self._reading is not None:
            clear = unreadable(self.path, self._reading)
            raise (clear or self._reading) from (self._reading if clear else None)
        if status:
            raise PipeFailed(
                f"{self.path}: the pipe command {self.command!r} {_ending(status)}{self._said()}"
            )

    def _said(self) -> str:
        self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, self._errors.tell() - _SHOWN_CHARACTERS))
        lines = self._errors.read().decode(errors="backslashreplace").strip().splitlines()
        return ". It said:\n" + "\n".join(lines[-_SHOWN_LINES:]) if lines else " and said nothing"

    def kill(self) -> None:
        """Ends the command and its children at once; whoever reads `stream` sees its end."""
        if self._process.poll() is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the command where it still runs, and lets go of everything."""
        self.kill()
        self._process.wait()
        self._feeder.join()
        self.stream.close()
        self._errors.close()
        os.close(self._alive)


def _ending(status: int) -> str:
    if status < 0:
        return f"was ended by {signal.Signals(-status).name}"
    return f"ended with status {status}"


def download_pipe(command: str, path: str, environment: Mapping[str, str]) -> Pipe:
    """The output of `command path`, as set by set_download_cmd."""
    return Pipe(f"{command} {shlex.quote(path)}", path, None, environment)
