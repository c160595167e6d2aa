"""Files of a branch of a git repository, written into a folder; the clone may lack some."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def check_out(clone: Path, branch: str, folders: list[str], into: Path) -> list[str]:
    """Writes the files below `folders`; returns paths whose content the clone lacks."""
    shutil.rmtree(into, ignore_errors=True)
    listed = subprocess.run(
        ["git", "-C", str(clone), "ls-tree", "-r", "-z", "--full-tree", branch, *folders],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    lost = []
    with subprocess.Popen(
        ["git", "-C", str(clone), "cat-file", "--batch"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as objects:
        assert objects.stdin is not None and objects.stdout is not None
        for entry in filter(None, listed.split("\0")):
            about, path = entry.split("\t", 1)
            mode, kind, name = about.split()
            if kind != "blob":
                continue
            objects.stdin.write(f"{name}\n".encode())
            objects.stdin.flush()
            head = objects.stdout.readline().split()
            if head[-1] == b"missing":
                lost.append(path)
                continue
            content = objects.stdout.read(int(head[2]))
            objects.stdout.read(1)
            _write(into / path, content, mode)
        objects.stdin.close()
    return lost


def _write(path: Path, content: bytes, mode: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if mode == "120000":
        path.symlink_to(content.decode())
    else:
        path.write_bytes(content)
