"""Donefiles of online learning: a line for each model that was saved, the newest last."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from refluid.fluid.incubate.fleet.utils.hdfs import HDFSClient

HOME = "$HADOOP_HOME"
# Where nothing was saved yet.
NOTHING = (-1, -1, "")


def client_of(path: str, name: str, ugi: str, home: str) -> HDFSClient:
    """What reaches a path: of HDFS where it says so, else this machine's files."""
    if path.partition(":")[0] in ("hdfs", "afs"):
        return HDFSClient(home, {"fs.default.name": name, "hadoop.job.ugi": ugi})
    return HDFSClient(None, {})


def append_line(client: HDFSClient, path: str, line: str, is_same: Callable[[str], bool]) -> bool:
    """Adds a line unless one is there that means the same; whether it did."""
    lines = client.cat(path).splitlines()
    if any(map(is_same, lines)):
        return False
    text = "\n".join([*lines, line]) + "\n"
    folder, _, name = path.rpartition("/")
    local = Path(f".{name}.{time.time_ns()}")
    try:
        local.write_text(text)
        client.makedirs(folder or ".")
        client.delete(path)
        client._files.put(str(local), path)
    finally:
        local.unlink(missing_ok=True)
    return True


def last_line(client: HDFSClient, path: str) -> str:
    """The last line; nothing where there is none."""
    lines = client.cat(path).splitlines()
    return lines[-1] if lines else ""
