"""Donefiles of online learning: a line for each model that was saved, the newest last."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from refluid.fluid.incubate.fleet.utils.hdfs import HDFSClient

# Where nothing was saved yet.
NOTHING = (-1, -1, "")


def client_of(path: str, name: str, ugi: str, home: str) -> HDFSClient:
    """What reaches a path: of HDFS where it says so, else this machine's files."""
    if path.partition(":")[0] in ("hdfs", "afs"):
        return HDFSClient(home, {"fs.default.name": name, "hadoop.job.ugi": ugi})
    return HDFSClient(None, {})


def append_line(client: HDFSClient, path: str, fields: list[Any], key: tuple[str, str]) -> bool:
    """Adds a line unless one with that day and pass is there; whether it did."""
    lines = client.cat(path).splitlines()
    if any(tuple(_key(line)) == key for line in lines):
        return False
    text = "\n".join([*lines, "\t".join(str(one) for one in fields)]) + "\n"
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


def last_line(client: HDFSClient, path: str) -> list[str]:
    """The fields of the last line; none where there is no line."""
    lines = client.cat(path).splitlines()
    return lines[-1].split("\t") if lines else []


def _key(line: str) -> list[str]:
    """Day and pass, which are the first and the fourth field."""
    fields = line.split("\t")
    return [fields[0], fields[3]] if len(fields) > 3 else []
