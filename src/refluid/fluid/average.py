"""WeightedAverage: a running mean kept in Python."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.core.fetched import fetched

__all__ = ["WeightedAverage"]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) or (
        isinstance(value, np.ndarray) and value.size == 1
    )


class WeightedAverage:
    """The mean of what is added, each with its weight.

    average = fluid.average.WeightedAverage()
    average.add(value=2.0, weight=1)
    average.add(value=4.0, weight=2)
    average.eval()  # 3.333
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets what was added."""
        self.numerator: Any = None
        self.denominator: Any = None

    def add(self, value: Any, weight: Any) -> None:
        """Adds a number or an array. ValueError for other values and for weights of any size
        but one."""
        if not (_is_number(value) or isinstance(value, np.ndarray)):
            raise ValueError("The 'value' must be a number(int, float) or a numpy ndarray.")
        if not _is_number(weight):
            raise ValueError("The 'weight' must be a number(int, float).")
        if self.numerator is None:
            self.numerator, self.denominator = value * weight, weight
        else:
            self.numerator = self.numerator + value * weight
            self.denominator = self.denominator + weight

    def eval(self) -> Any:
        """The mean so far. ValueError before anything was added."""
        if self.numerator is None or self.denominator is None:
            raise ValueError("There is no data to be averaged in WeightedAverage.")
        return fetched(self.numerator / self.denominator)
