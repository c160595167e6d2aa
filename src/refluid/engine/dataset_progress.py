"""How far a pass over a dataset is, for people who wait: rows per second and the part read."""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

from refluid.feed.text_datasets.feed import DatasetFeed

if TYPE_CHECKING:
    from rich.table import Table

_WIDTH = 30
_SAMPLES = 20


class Progress:
    """The line at the bottom of the terminal. infer: whether nothing is trained."""

    def __init__(self, feed: DatasetFeed, infer: bool) -> None:
        self._feed = feed
        self._title = "infer_from_dataset" if infer else "train_from_dataset"
        self._recent: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)
        self._recent.append((time.perf_counter(), feed.rows))

    def __call__(self) -> Table:
        """The line, as it is now."""
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        share = self._feed.share
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(1.0, share or 0.0, _WIDTH, pulse=share is None)
        line.add_row(self._title, bar, self.text())
        return line

    def text(self) -> str:
        """`43% of the bytes, 12,000 rows, 5,100 rows/s`, the last over some seconds."""
        now, rows = time.perf_counter(), self._feed.rows
        then, before = self._recent[0]
        self._recent.append((now, rows))
        speed = (rows - before) / max(now - then, 1e-9)
        share = self._feed.share
        part = "" if share is None else f"{share:.0%} of the {self._feed.unit}, "
        return f"{part}{rows:,} rows, {speed:,.0f} rows/s"
