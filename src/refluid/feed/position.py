"""Where a loader is in its data, and how to get there again."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_VERSION = 1
_NAMES = ("version", "epoch", "batch", "python_random", "numpy_random")


@dataclass
class Position:
    """The pass (`epoch`), the batches already given in it, and the random state it began with."""

    epoch: int = 0
    batch: int = 0
    python_random: Any = None
    numpy_random: Any = None

    def remember_random(self) -> None:
        """Notes the present state of Python's and NumPy's random numbers."""
        self.python_random = random.getstate()
        self.numpy_random = np.random.get_state()

    def restore_random(self) -> None:
        """Puts the noted state back, if one was."""
        if self.python_random is not None:
            random.setstate(self.python_random)
            np.random.set_state(self.numpy_random)

    def state_dict(self) -> dict[str, Any]:
        """All of it as plain lists and numbers, for JSON or pickle."""
        kind, keys, *rest = self.numpy_random
        version, internal, gauss = self.python_random
        return {
            "version": _VERSION,
            "epoch": self.epoch,
            "batch": self.batch,
            "python_random": [version, list(internal), gauss],
            "numpy_random": [kind, [int(key) for key in keys], *map(_plain, rest)],
        }

    @classmethod
    def load(cls, state: Mapping[str, Any]) -> Position:
        """The position that `state_dict` described. ValueError for anything else."""
        missing = [name for name in _NAMES if name not in state]
        if missing or state["version"] != _VERSION:
            raise ValueError(
                f"this is no state of a loader that this refluid can read: version "
                f"{state.get('version')}, without {', '.join(missing) or 'nothing'}"
            )
        version, internal, gauss = state["python_random"]
        kind, keys, *rest = state["numpy_random"]
        return cls(
            int(state["epoch"]),
            int(state["batch"]),
            (version, tuple(internal), gauss),
            (kind, np.array(keys, np.uint32), *rest),
        )


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value
