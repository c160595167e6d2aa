"""A picture of all ratios: one group of bars per workload, one bar per peer."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import matplotlib

from benchmarks.suite.page import PEERS, Result
from benchmarks.suite.results import best
from benchmarks.suite.rivals import RIVALS

matplotlib.use("svg")
from matplotlib import pyplot

COLOURS = matplotlib.color_sequences["tab10"]  # as many peers have bars


def draw(results: Mapping[str, Result], path: Path) -> None:
    """Writes an SVG. Ratios lie on a logarithmic axis; thin lines reach from low to high."""
    matplotlib.rcParams["svg.hashsalt"] = "refluid"
    figure, axes = pyplot.subplots(figsize=(9, 0.75 * len(results) + 1.2))
    height = 0.8 / len(PEERS)
    for number, (peer, colour) in enumerate(zip(PEERS, COLOURS[: len(PEERS)], strict=True)):
        found = [(row, best(result, peer)) for row, result in enumerate(results.values())]
        there = [(row, entry["ratio"]) for row, entry in found if entry is not None]
        if not there:
            continue
        rows = [row + (number - (len(PEERS) - 1) / 2) * height for row, _ in there]
        values = [ratio["value"] for _, ratio in there]
        reach = [
            [max(0, ratio["value"] - ratio["low"]) for _, ratio in there],
            [max(0, ratio["high"] - ratio["value"]) for _, ratio in there],
        ]
        widths = [value - 1 for value in values]
        axes.barh(rows, widths, height, left=1, color=colour, label=RIVALS[peer].title)
        axes.errorbar(values, rows, xerr=reach, fmt="none", ecolor="#444", elinewidth=0.7)
    axes.set_xscale("log")
    ticks = [0.5, 0.7, 1, 1.5, 2, 3, 5, 10, 20]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_yticks(range(len(results)), list(results))
    axes.invert_yaxis()
    axes.axvline(1, color="#222", linewidth=1)
    axes.set_xlabel("step time over refluid's: right of 1, refluid is faster")
    axes.legend(loc="best", fontsize="small", frameon=False)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
