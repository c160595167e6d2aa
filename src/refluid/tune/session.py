"""A script at its gate, seen from the tuner: started, asked, ended."""

from __future__ import annotations

import contextlib
import json
import math
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from refluid.core import flags
from refluid.engine.choices import NONE, Choices
from refluid.engine.strategy_file import tables_of, written
from refluid.tune.apart import REFUSED
from refluid.tune.living import Life, life_of

_TAIL = 2000
# Seconds that a script may take to answer.
_PATIENCE = 300.0
_COMPILER = "TORCHINDUCTOR_CACHE_DIR"


class NoLoop(Exception):
    """The script gave nothing to tune: it ended, or failed, before its loop was recognised."""


class TrialFailed(Exception):
    """What was asked for failed; the script is still at its gate, or gone."""


@dataclass(frozen=True)
class Script:
    """What to run. unprotected: with files as they are, where they can't be covered. trainers: in
    so many processes, which train together. servers: so many processes more hold tables. kept:
    folder for what is compiled, so that it is compiled once; empty: none."""

    command: Sequence[str]
    unprotected: bool = False
    trainers: int = 1
    servers: int = 0
    kept: str = ""

    @property
    def is_alone(self) -> bool:
        """Whether it is one process."""
        return self.trainers == 1 and not self.servers

    @property
    def text(self) -> str:
        """Of its file, where it can be read."""
        try:
            return script_path(self.command).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""


class Session:
    """One process of the script, which is to arrive at its gate. choices: what it is started with.
    within: seconds to wait at most. more: variables of its environment. gated: whether it has a
    gate; a server of tables has none.

    first: what its first steps took and gave; life: the latest ones.
    """

    life: Life
    first: Life

    def __init__(
        self,
        script: Script,
        choices: Choices = NONE,
        within: float = math.inf,
        more: Mapping[str, str] | None = None,
        *,
        gated: bool = True,
    ) -> None:
        self._within, self._is_alone, self._rests = within, script.is_alone, False
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        own, theirs = socket.socketpair()
        self._talk, self._left = own, b""
        # The process reads it while it starts.
        self._file = file = tempfile.NamedTemporaryFile("w", suffix=".toml")  # noqa: SIM115
        file.write(written(choices))
        file.flush()
        with theirs:
            apart = (
                []
                if script.unprotected
                else ["-m", "refluid.tune.apart", script.kept, sys.executable]
            )
            gate = str(theirs.fileno() if gated else 0)
            run = ["-m", "refluid.cli.main", "run", "--gate", gate]
            self._process = subprocess.Popen(
                [sys.executable, *apart, *run, "--strategy", file.name, *script.command],
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                pass_fds=[theirs.fileno()],
                env={**flags.whole_environment(), **_compiled_in(script.kept), **(more or {})},
                start_new_session=True,
            )

    def arrive(self) -> None:
        """Waits until it is at its gate, and what its steps take is known. NoLoop where it doesn't
        come there."""
        try:
            self.life = self.first = self._arrived()
        except BaseException:
            self.close()
            raise
        self._file.close()
        # What goes on in threads would disturb whoever is measured meanwhile.
        self._rests = self.life.kind.passes and self._is_alone
        self._rest()

    def _arrived(self) -> Life:
        try:
            said = self.answer(self._within)
        except TrialFailed as error:
            if self._process.poll() == REFUSED:
                raise NoLoop(
                    f"{self.tail()}: namespaces of mounts aren't allowed here. --unprotected lets "
                    "the script write its files while it is tuned"
                ) from None
            raise NoLoop(f"{error}\n{self.tail()}") from None
        if "ended" in said:
            raise NoLoop("the script ended before it had run a program often enough")
        return life_of(said["life"])

    def ask(
        self, do: str, choices: Choices = NONE, within: float = math.inf, **more: Any
    ) -> dict[str, Any]:
        """What the script answers. TrialFailed where it doesn't, in so many seconds."""
        self.send(do, choices, **more)
        return self.answer(within)

    def send(self, do: str, choices: Choices = NONE, **more: Any) -> None:
        """Asks without waiting for the answer, which `answer` gives. TrialFailed as `ask`."""
        self._rest(signal.SIGCONT)
        line = json.dumps({"do": do, "choices": tables_of(choices), **more}) + "\n"
        try:
            self._talk.sendall(line.encode())
        except OSError as error:
            raise TrialFailed(f"the script is gone: {error}") from None

    def go(self, choices: Choices, steps: int = 0, within: float = math.inf) -> Life:
        """Lets the loop go on with these choices, for so many steps (0: as at first)."""
        self.life = life_of(self.ask("go", choices, within, steps=steps)["life"])
        return self.life

    def _rest(self, how: signal.Signals = signal.SIGSTOP) -> None:
        if self._rests and self._process.poll() is None:
            self._process.send_signal(how)

    def answer(self, within: float = math.inf) -> dict[str, Any]:
        """What the script says next. TrialFailed where it failed, is gone, or says nothing."""
        patience = min(_PATIENCE, within)
        deadline = time.monotonic() + patience
        while b"\n" not in self._left:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._talk], [], [], left)[0]:
                raise TrialFailed(f"no answer within {patience:.0f} s")
            try:
                more = self._talk.recv(1 << 16)
            except ConnectionResetError:
                more = b""
            if not more:
                self._process.wait()
                raise TrialFailed(f"the script ended ({self._process.returncode})")
            self._left += more
        line, self._left = self._left.split(b"\n", 1)
        self._rest()
        found: dict[str, Any] = json.loads(line)
        if "failed" in found:
            raise TrialFailed(found["failed"])
        return found

    def tail(self) -> str:
        """The last of what the script printed."""
        self._output.seek(0, os.SEEK_END)
        self._output.seek(max(0, self._output.tell() - _TAIL))
        return self._output.read().decode(errors="replace").strip()

    @property
    def lives(self) -> Sequence[Life]:
        """Of the one trainer that there is."""
        return [self.life]

    def end(self) -> None:
        """Ends the script with all that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends it, and what it was asked by."""
        self.end()
        self._process.wait()
        self._talk.close()
        self._output.close()
        self._file.close()


def _compiled_in(folder: str) -> dict[str, str]:
    """Has the compiler keep what it made there, unless it is told to keep it elsewhere."""
    told = flags.environment_str(_COMPILER)
    return {_COMPILER: folder} if folder and not told else {}


def script_path(command: Sequence[str]) -> Path:
    """The script's file."""
    return Path(command[0])
