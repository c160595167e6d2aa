"""Random numbers in worker processes: they follow from those of the training process."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np
import torch

_RANGE = 2**32


@dataclass(frozen=True)
class Seeds:
    """Where the random numbers of a pass begin. `draw` takes them from `random` and `numpy`, so
    that each pass differs, and seeding those two makes all passes reproducible."""

    python: int
    numpy: int

    @classmethod
    def draw(cls) -> Seeds:
        """The next seeds of this process."""
        return cls(random.getrandbits(32), int(np.random.randint(2**31 - 1)))

    def apply(self, number: int) -> None:
        """Seeds `random`, `numpy.random` and torch (on the CPU) for the part `number`."""
        random.seed(self.python + number)
        np.random.seed((self.numpy + number) % _RANGE)
        torch.default_generator.manual_seed(self.python + number)
