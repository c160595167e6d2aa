"""What a group of variables should be off by, told from what all others are off by.

What rounding flips moves every variable after the flip, in proportions that repetitions show: a
ridge regression on repetitions predicts each group from the others. What one wrong gradient, decay
or update does shows in one group alone, and no other predicts it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from refluid.verify.recordings import Array

# Of a digest's numbers the first are sums, the others elements.
SUMS = 3
# Of the mean square of what a repetition is off by.
RIDGE = 0.02
# What is off by more scatters than this says how far, but not how others follow.
FURTHEST = 8.0
# Relative to the number: less is not believed of few runs. A variable whose sums rounding moves by
# more, and a number, are noise.
SURE, NOISY, NOISE = 1e-6, 0.05, 0.1
# Of what is left after prediction, at least: of the scatter, and relative to the number.
LEFT, LEAST = 0.05, 3e-7


class Prediction:
    """Fitted on repetitions; says how far other runs are from what it predicts.

    samples: how far repetitions are from the run itself, relatively; by repetition, variable and
    number. groups: which variables are predicted together, from all others. slack: what is left of
    each variable's numbers in any case, as a standard deviation.
    """

    def __init__(self, samples: Array, groups: Sequence[Array], slack: Array) -> None:
        count = len(samples)
        scatter = np.sqrt(np.square(samples).mean(0))
        self._scatter = np.hypot(scatter, SURE)
        noisy = scatter[:, :SUMS].max(1, keepdims=True) >= NOISY
        self._telling = (scatter < NOISE) & ~noisy
        self._samples = self._units(samples)
        flat = self._clipped(self._samples).reshape(count, -1)
        products = flat @ flat.T
        ridge = (RIDGE * np.trace(products) / count + 1e-12) * np.eye(count)
        self._flat, self._groups = flat, groups
        self._weights, self._spread, self.usual = [], [], 0.0
        for group in groups:
            own, wanted = self._own(self._samples, group)
            inverse = np.linalg.inv(products - own @ own.T + ridge)
            weights = inverse @ wanted
            # What is left of each repetition if all others are fitted.
            left = weights / np.diag(inverse)[:, None]
            least = (np.hypot(slack, LEAST)[group] / self._scatter[group]).ravel()
            spread = np.sqrt(np.square(left).mean(0) + LEFT**2 + np.square(least))
            self._weights.append(weights)
            self._spread.append(spread)
            self.usual = max(self.usual, float((np.abs(left) / spread).max()))

    def left(self, one: Array) -> Array:
        """By group, the most that a number of a run is off by what is not predicted, in standard
        deviations of what is left of repetitions. one: as a sample."""
        units = self._units(one[None])
        likeness = self._flat @ self._clipped(units).ravel()
        found = []
        for group, weights, spread in zip(self._groups, self._weights, self._spread, strict=True):
            own, wanted = self._own(units, group)
            predicted = (likeness - self._own(self._samples, group)[0] @ own[0]) @ weights
            found.append(float((np.abs(wanted[0] - predicted) / spread).max()))
        return np.array(found)

    def _units(self, samples: Array) -> Array:
        return np.asarray(np.where(self._telling, samples / self._scatter, 0.0))

    def _clipped(self, units: Array) -> Array:
        return np.clip(units, -FURTHEST, FURTHEST)

    def _own(self, units: Array, group: Array) -> tuple[Array, Array]:
        """The group's numbers: as they predict others, and as they are."""
        own = units[:, group].reshape(len(units), -1)
        return self._clipped(own), own
