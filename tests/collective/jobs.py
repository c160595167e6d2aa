"""Jobs of several processes on this machine: a function that each trainer runs."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from refluid.core.ports import free_endpoints
from tests.started import Started, start

_LONGEST = 240.0
_MAIN = """
import importlib, pickle, sys
sys.path[:0] = {path!r}
module, name, given, out = {module!r}, {name!r}, {given!r}, {out!r}
function = getattr(importlib.import_module(module), name)
try:
    result = function(*pickle.loads(given))
except Exception as error:
    result = f"{{type(error).__name__}}: {{error}}"
with open(out, "wb") as file:
    pickle.dump(result, file)
"""


def as_trainers(
    size: int,
    function: Callable[..., Any],
    *given: Any,
    folder: Path,
    environment: Mapping[str, str] | None = None,
    of_rank: Callable[[int], Mapping[str, str]] = lambda _rank: {},
) -> list[Any]:
    """What `function(*given)`, of a module's top level, returns as each trainer of a job.

    An exception is returned as text, `Type: message`; a process that died as its exit status.
    """
    endpoints = free_endpoints(size)
    begun = []
    for rank in range(size):
        out = folder / f"{function.__name__}-{rank}.pickle"
        text = _MAIN.format(
            path=[one for one in sys.path if one],
            module=function.__module__,
            name=function.__name__,
            given=pickle.dumps(given),
            out=str(out),
        )
        told = {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_TRAINERS_NUM": str(size),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
            "PADDLE_CURRENT_ENDPOINT": endpoints[rank],
            "OMP_NUM_THREADS": "1",
            "FLAGS_refluid_meeting_seconds": "120",
            "FLAGS_refluid_exchange_seconds": "60",
        }
        variables = {**os.environ, **told, **(environment or {}), **of_rank(rank)}
        # Each second one begins by itself: sets have other orders there.
        process = start("-c", text, environment=variables, nth=rank % 2)
        begun.append((process, out))
    try:
        return [_result(process, out) for process, out in begun]
    finally:
        for process, _ in begun:
            process.kill()
            process.wait()


def _result(process: Started, out: Path) -> Any:
    status = process.wait(_LONGEST)
    return pickle.loads(out.read_bytes()) if out.is_file() else status
