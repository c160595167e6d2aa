"""Classes drawn at random as C++ programs draw them: a seed gives the numbers it gave in Fluid.

The source is the Mersenne twister of 32 bits; a real number is made of two of its numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.signature import Random

Words = npt.NDArray[np.uint64]
Reals = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]
_WORD = 2.0**32


class Stream:
    """Random numbers of a seed; seed 0 takes one from the program's own source."""

    def __init__(self, seed: int, random: Random) -> None:
        if seed == 0:
            seed = int(torch.randint(1, 2**31, (1,), generator=_on_cpu(random)).item())
        self._twister = np.random.RandomState(seed % 2**32)

    def words(self, count: int) -> Words:
        """Integers of [0, 2**32)."""
        drawn: Any = self._twister.randint(0, 2**32, count, dtype=np.uint32)
        return np.asarray(drawn, dtype=np.uint64)

    def reals(self, count: int) -> Reals:
        """Numbers of [0, 1)."""
        return _reals(self.words(2 * count).reshape(count, 2))

    def integers(self, count: int, bound: int) -> Classes:
        """Integers of [0, bound), all equally likely."""
        width = (2**32 - 1) // bound
        found = np.empty(0, np.uint64)
        while found.size < count:
            drawn = self.words(count - found.size)
            found = np.concatenate((found, drawn[drawn < width * bound]))
        return (found // np.uint64(width)).astype(np.int64)


def _on_cpu(random: Random) -> torch.Generator | None:
    generator = random(0)
    return generator if generator is None or generator.device.type == "cpu" else None


def _reals(pairs: Words) -> Reals:
    low, high = pairs[:, 0].astype(np.float64), pairs[:, 1].astype(np.float64)
    return np.minimum((low + high * _WORD) / _WORD**2, np.nextafter(1.0, 0.0))


class Uniform:
    """Every class is equally likely."""

    def __init__(self, classes: int) -> None:
        self._classes = classes

    def draw(self, stream: Stream, count: int) -> Classes:
        """`count` classes."""
        return stream.integers(count, self._classes)

    def probability(self, classes: Tensor, dtype: torch.dtype) -> Tensor:
        """How likely each of `classes` is."""
        return torch.full_like(classes, 1.0 / self._classes, dtype=dtype)


class LogUniform:
    """Class c has probability log((c + 2) / (c + 1)) / log(classes + 1): low numbers are frequent."""

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._span = np.log(classes + 1.0)

    def draw(self, stream: Stream, count: int) -> Classes:
        """`count` classes."""
        values = np.exp(stream.reals(count) * self._span).astype(np.int64) - 1
        return np.asarray(values % self._classes)

    def probability(self, classes: Tensor, dtype: torch.dtype) -> Tensor:
        """How likely each of `classes` is."""
        one = classes.double()
        return (torch.log((one + 2.0) / (one + 1.0)) / float(self._span)).to(dtype)


class Alias:
    """Given probabilities, drawn by the alias method: a class, or with some chance its alias."""

    def __init__(self, probabilities: Tensor, alias: Tensor, keep: Tensor) -> None:
        self._probabilities = probabilities.reshape(-1)
        self._alias = alias.reshape(-1).cpu().numpy()
        self._keep = keep.reshape(-1).cpu().numpy()

    def draw(self, stream: Stream, count: int) -> Classes:
        """`count` classes."""
        bound = self._keep.size
        words = stream.words(3 * count).reshape(count, 3)
        width = np.uint64((2**32 - 1) // bound)
        first = np.minimum(words[:, 0] // width, np.uint64(bound - 1)).astype(np.int64)
        swap = _reals(words[:, 1:]) > self._keep[first]
        return np.where(swap, self._alias[first], first).astype(np.int64)

    def probability(self, classes: Tensor, dtype: torch.dtype) -> Tensor:
        """How likely each of `classes` is."""
        return self._probabilities[classes].to(dtype)


Sampler = Uniform | LogUniform | Alias


def sampler(kind: int, classes: int, custom: tuple[Tensor | None, ...]) -> Sampler:
    """0 uniform, 1 log-uniform, 2 custom: (probabilities, alias, alias probabilities)."""
    if kind == 0:
        return Uniform(classes)
    if kind == 1:
        return LogUniform(classes)
    probabilities, alias, keep = custom
    if kind != 2 or probabilities is None or alias is None or keep is None:
        raise EnforceNotMet(
            "nce: sampler 2 needs CustomDistProbs, CustomDistAlias and CustomDistAliasProbs; "
            f"samplers are 0 (uniform), 1 (log uniform) and 2 (custom), this is {kind}"
        )
    return Alias(probabilities, alias, keep)


def draw_unique(source: Sampler, stream: Stream, count: int) -> tuple[Classes, int]:
    """`count` different classes in the order in which they came, and the number of draws."""
    drawn = source.draw(stream, 2 * count)
    while True:
        _, first = np.unique(drawn, return_index=True)
        if first.size >= count:
            places = np.sort(first)[:count]
            return drawn[places], int(places[-1]) + 1
        drawn = np.concatenate((drawn, source.draw(stream, drawn.size)))
