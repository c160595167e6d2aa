"""Runs a script of FleetX's examples/resnet with a few made-up images, for a few steps.

    refluid launch -n 2 --place cpu fleetx_small.py train_fleet_static.py

The script is as it was published; its images, the size of its batches and its end come from here.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import paddle
import paddle.dataset.flowers

# A step of a pipeline takes eight batches.
STEPS, BATCH, BATCHES = 6, 2, 48
SIZE = 3 * 224 * 224


def made_up(*_given: Any, **_options: Any) -> Callable[[], Iterator[tuple[Any, int]]]:
    """In place of `flowers.train`: images of noise, each of one of 102 kinds."""

    def reader() -> Iterator[tuple[Any, int]]:
        draws = np.random.default_rng(1)
        for _ in range(BATCH * BATCHES):
            yield draws.standard_normal(SIZE).astype("float32"), int(draws.integers(102))

    return reader


def ends_after(steps: int, run: Callable[..., Any]) -> Callable[..., Any]:
    """An executor's `run` that ends the process after so many steps of training."""
    left = [steps]

    def counted(self: Any, program: Any = None, feed: Any = None, **given: Any) -> Any:
        trains = feed is not None or program is paddle.static.default_main_program()
        if trains and left[0] == 0:
            raise SystemExit(0)
        left[0] -= trains
        return run(self, program, feed=feed, **given)

    return counted


def main() -> None:
    """Runs the script that is named after this one."""
    batch = paddle.batch
    paddle.batch = lambda reader, batch_size, drop_last=False: batch(reader, BATCH, drop_last)
    paddle.dataset.flowers.train = made_up
    paddle.static.Executor.run = ends_after(STEPS, paddle.static.Executor.run)
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
