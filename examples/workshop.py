"""What the examples share: options, where their data is, and how their pictures look."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

try:
    import paddle.fluid as fluid
except ImportError:  # started by plain `python`: let refluid take the name `paddle`
    import refluid.paddle

    refluid.paddle.install()
    import paddle.fluid as fluid

INK, QUIET, GRID = "#1f2328", "#6b7280", "#e5e7eb"
BLUE, PALE, RED, GREEN, GOLD, VIOLET = (
    *("#1f6feb", "#b6d0f7", "#c62828", "#2e7d32", "#b7791f", "#6f42c1"),
)
__all__ = ["Stopwatch", "chart", "data_file", "fluid", "options", "save", "tidy"]


def options(about: str, **defaults: int) -> argparse.Namespace:
    """`--out FOLDER`, and a whole number for each of the defaults."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="folder for pictures")
    for name, value in defaults.items():
        parser.add_argument(f"--{name}", type=int, default=value, help=f"default: {value}")
    found = parser.parse_args()
    found.out.mkdir(parents=True, exist_ok=True)
    return found


def data_file(data: str, name: str) -> Path:
    """A file of a data set that scripts/fetch_data.py installs; ends the example where it isn't."""
    root = Path(__file__).resolve().parent.parent
    path = Path(os.environ.get("REFLUID_DATA") or root / ".data") / data / name
    if not path.is_file():
        sys.exit(f"{path} is not there: run `python scripts/fetch_data.py {data}`")
    return path


class Stopwatch:
    """Prints what was said with the seconds since the start."""

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        return time.perf_counter() - self._begin

    def say(self, text: str) -> None:
        print(f"{self.seconds:6.1f} s  {text}", flush=True)


def chart(columns: int, width: float = 10, height: float = 4, **settings: Any) -> tuple[Any, Any]:
    """A figure with charts side by side, drawn into files only."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.rcParams.update({"text.color": INK, "axes.labelcolor": INK, "axes.titlesize": 11})
    return pyplot.subplots(
        1, columns, figsize=(width, height), layout="constrained", squeeze=False, **settings
    )


def tidy(axis: Any, grid: bool = True) -> None:
    """No frame on the right and above; a pale grid behind."""
    axis.spines[["top", "right"]].set_visible(False)
    axis.tick_params(colors=QUIET)
    if grid:
        axis.grid(color=GRID, linewidth=0.6)
        axis.set_axisbelow(True)


def save(figure: Any, path: Path) -> Path:
    """Writes the picture; its path."""
    from matplotlib import pyplot

    figure.savefig(path, dpi=120, facecolor="white")
    pyplot.close(figure)
    return path
