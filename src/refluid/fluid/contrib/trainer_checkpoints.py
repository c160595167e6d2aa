"""Checkpoints of `contrib.trainer`: `checkpoint_N/__model__/VARIABLE`, `checkpoint_N/trainer_0`."""

from __future__ import annotations

import logging
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from refluid.fluid import io
from refluid.ir.program import Program

__all__ = ["CheckpointConfig", "ReachedStep"]

_LOGGER = logging.getLogger("refluid")
_PREFIX = "checkpoint_"


class ReachedStep(NamedTuple):
    """A step of an epoch, both counted from 0."""

    epoch: int
    step: int


@dataclass
class CheckpointConfig:
    """Where a `Trainer` keeps its checkpoints, how many of them, and after which steps.

    checkpoint_dir: None is the working directory; it is for one training only. A checkpoint is made
    after each `step_interval`-th step of each `epoch_interval`-th epoch.
    """

    checkpoint_dir: str | None = None
    max_num_checkpoints: int = 3
    epoch_interval: int = 1
    step_interval: int = 10

    def __post_init__(self) -> None:
        for name in ("max_num_checkpoints", "epoch_interval", "step_interval"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} of CheckpointConfig is 1 or more")

    def save(self, executor: Any, program: Program, at: ReachedStep) -> None:
        """Saves all persistable variables, if it is time for it; the oldest checkpoint goes."""
        if at.epoch % self.epoch_interval or at.step % self.step_interval:
            return
        kept = self._kept()
        number = kept[-1] + 1 if kept else 0
        folder = self._folder(number)
        unfinished = folder.with_suffix(".part")
        shutil.rmtree(unfinished, ignore_errors=True)
        io.save_persistables(executor, unfinished / "__model__", program)
        (unfinished / "trainer_0").mkdir()
        for name, value in at._asdict().items():
            (unfinished / "trainer_0" / f"{name}_id").write_text(str(value))
        unfinished.rename(folder)
        for old in [*kept, number][: -self.max_num_checkpoints]:
            shutil.rmtree(self._folder(old))

    def restored(self, executor: Any, program: Program) -> ReachedStep:
        """Loads the latest checkpoint, where there is one; the step to go on with."""
        if not (kept := self._kept()):
            return ReachedStep(0, 0)
        folder = self._folder(kept[-1])
        io.load_persistables(executor, folder / "__model__", program)
        epoch, step = (
            int((folder / "trainer_0" / f"{name}_id").read_text()) for name in ReachedStep._fields
        )
        _LOGGER.warning("training goes on after epoch %d, step %d, by %s", epoch, step, folder)
        return ReachedStep(epoch, step + 1)

    def _folder(self, number: int) -> Path:
        return Path(self.checkpoint_dir or ".") / f"{_PREFIX}{number}"

    def _kept(self) -> list[int]:
        """The numbers of the checkpoints there are, in order."""
        found = Path(self.checkpoint_dir or ".").glob(f"{_PREFIX}*")
        ends = [path.name.removeprefix(_PREFIX) for path in found]
        return sorted(int(end) for end in ends if end.isdecimal())
