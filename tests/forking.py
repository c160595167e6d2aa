"""`python tests/forking.py FD`: forks processes of Python that have torch imported already.

Each does what `python ARGUMENTS` does; what that is comes over the socket FD, from `tests.started`.
Nothing but torch is imported before: refluid reads its environment in each anew. They end without
taking Python's and torch's objects apart one by one: as long as all that most of them do.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import select
import signal
import socket
import struct
import sys
import types
from typing import Any

Asked = dict[str, Any]
STATUS = struct.Struct("q")
_ends_with: list[int] = []


def serve(connection: socket.socket) -> Asked:
    """Forks for each request, and returns it in the process that is to do it."""
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.set_wakeup_fd(waking)
    telling: dict[int, int] = {}
    while True:
        ready, _, _ = select.select([connection, woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _tell_of_the_ended(telling)
        if connection not in ready:
            continue
        _, given, _, _ = socket.recv_fds(connection, 1, 5)
        if not given:  # who asks has ended
            os._exit(0)
        text, *streams, ends = given
        pid = os.fork()
        if not pid:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            connection.close()
            with open(text) as file:
                asked: Asked = json.load(file)
            _put_in_place(asked, streams)
            for one in (woken, waking, ends, *streams, *telling.values()):
                os.close(one)
            return asked
        telling[pid] = ends
        for one in (text, *streams):
            os.close(one)
        connection.send(STATUS.pack(pid))


def _tell_of_the_ended(telling: dict[int, int]) -> None:
    for pid, ends in list(telling.items()):
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            with contextlib.suppress(BrokenPipeError):  # nobody waits for it
                os.write(ends, STATUS.pack(os.waitstatus_to_exitcode(status)))
            os.close(telling.pop(pid))


def _put_in_place(asked: Asked, streams: list[int]) -> None:
    for number, one in enumerate(streams):
        os.dup2(one, number)
    sys.stdout.reconfigure(line_buffering=os.isatty(1))  # type: ignore[union-attr]
    if asked["session"]:
        os.setsid()
    os.chdir(asked["folder"])
    os.environ.clear()
    os.environ.update(asked["environment"])
    how = signal.SIG_IGN if asked["deaf"] else signal.default_int_handler
    signal.signal(signal.SIGINT, how)
    sys.modules["numpy"].random.seed()


def become(arguments: list[str]) -> None:
    """Runs what Python would, as its main module."""
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    first, *rest = arguments
    if first == "-c":
        code: Any = compile(rest[0], "<string>", "exec")
        sys.argv, beside = ["-c", *rest[1:]], ""
    elif first == "-m":
        beside = os.getcwd()
        sys.path.insert(0, beside)
        spec: Any = importlib.util.find_spec(rest[0])
        if spec.submodule_search_locations is not None:
            spec = importlib.util.find_spec(f"{rest[0]}.__main__")
        code = spec.loader.get_code(spec.name)
        main.__spec__, main.__loader__, main.__package__ = spec, spec.loader, spec.parent
        main.__file__ = spec.origin
        sys.argv = [spec.origin, *rest[1:]]
        sys.path.pop(0)
    else:
        with open(first, "rb") as file:
            code = compile(file.read(), first, "exec")
        main.__file__ = first
        sys.argv, beside = arguments, os.path.dirname(os.path.abspath(first))
    sys.path.insert(0, beside)
    exec(code, vars(main))


def finish(arguments: list[str]) -> None:
    """The same, and notes with which status Python will end."""
    try:
        become(arguments)
    except SystemExit as asked:
        plain = asked.code is None or isinstance(asked.code, int)
        _ends_with.append((asked.code or 0) & 255 if plain else 1)
        raise
    except Exception:
        _ends_with.append(1)
        raise
    _ends_with.append(0)


def _end_at_once() -> None:
    """After threads are joined and all else that is to happen at the end has."""
    if _ends_with:
        with contextlib.suppress(Exception):  # Python says so
            sys.stdout.flush()
            sys.stderr.flush()
            ctypes.CDLL(None).fflush(None)
            os._exit(_ends_with[0])


if __name__ == "__main__":
    if os.fork():  # no child of the process that starts it, which may ask for its children
        os._exit(0)
    del sys.path[0]
    atexit.register(_end_at_once)  # first, so it is called last
    import torch  # noqa: F401

    gc.freeze()  # else each goes through all of torch's objects, and so copies them
    finish(serve(socket.socket(fileno=int(sys.argv[1])))["arguments"])
