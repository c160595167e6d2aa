"""What all data is made with."""

from __future__ import annotations

from pathlib import Path

import numpy as np

Random = np.random.Generator


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def none(_folder: Path, _random: Random) -> None:
    """The script comes with data, or makes it."""
