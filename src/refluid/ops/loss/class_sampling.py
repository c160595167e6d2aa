"""Classes drawn at random as Fluid draws them: a seed gives the classes that it gave there."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.signature import Random
from refluid.ops.tensor.mersenne import (
    Integers,
    MersenneTwister,
    Twister32,
    Twister64,
    Words,
    integers,
    reals,
    reals_of_pairs,
)


class UniformClasses:
    """Every class is equally likely."""

    engine = Twister64

    def __init__(self, classes: int) -> None:
        self._classes = classes

    def draw(self, engine: MersenneTwister, count: int) -> Integers:
        """`count` classes."""
        return integers(engine, count, self._classes)

    def probability(self, classes: Tensor, dtype: torch.dtype) -> Tensor:
        """How likely each of `classes` is."""
        return torch.full_like(classes, 1.0 / self._classes, dtype=dtype)


class LogUniform:
    """Class c has probability log((c + 2) / (c + 1)) / log(classes + 1): low ones are frequent."""

    engine = Twister64

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._span = np.log(classes + 1.0)

    def draw(self, engine: MersenneTwister, count: int) -> Integers:
        """`count` classes."""
        values = np.exp(reals(engine, count) * self._span).astype(np.int64) - 1
        return np.asarray(values % self._classes)

    def probability(self, classes: Tensor, dtype: torch.dtype) -> Tensor:
        """How likely each of `classes` is."""
        one = classes.double()
        return (torch.log((one + 2.0) / (one + 1.0)) / float(self._span)).to(dtype)


class Alias:
    """Given probabilities, drawn by the alias method: a class, or with some chance its alias."""

    engine = Twister32

    def __init__(self, probabilities: Tensor, alias: Tensor, keep: Tensor) -> None:
        self._probabilities = probabilities.reshape(-1)
        self._alias = alias.reshape(-1).cpu().numpy()
        self._keep = keep.reshape(-1).cpu().numpy()

    def draw(self, engine: MersenneTwister, count: int) -> Integers:
        """`count` classes."""
        bound = self._keep.size
        words = engine.words(3 * count).reshape(count, 3)
        width = np.uint64((2**32 - 1) // bound)
        first = np.minimum(words[:, 0] // width, np.uint64(bound - 1)).astype(np.int64)
        swap = reals_of_pairs(words[:, 1:]) > self._keep[first]
        return np.asarray(np.where(swap, self._alias[first], first), dtype=np.int64)

    def probability(self, classes: Tensor, dtype: torch.dtype) -> Tensor:
        """How likely each of `classes` is."""
        return self._probabilities[classes].to(dtype)


class AnyWords:
    """Random words where no seed says which."""

    bits = 64

    def __init__(self, seed: int) -> None:
        self._source = np.random.Generator(np.random.SFC64(seed))

    def words(self, count: int) -> Words:
        """The next `count` words."""
        return self._source.integers(0, 2**64, count, dtype=np.uint64)


Sampler = UniformClasses | LogUniform | Alias


def sampler(kind: int, classes: int, custom: tuple[Tensor | None, ...]) -> Sampler:
    """0 uniform, 1 log-uniform, 2 custom: (probabilities, alias, alias probabilities)."""
    if kind == 0:
        return UniformClasses(classes)
    if kind == 1:
        return LogUniform(classes)
    probabilities, alias, keep = custom
    if kind != 2 or probabilities is None or alias is None or keep is None:
        raise EnforceNotMet(
            "nce: sampler 2 needs CustomDistProbs, CustomDistAlias and CustomDistAliasProbs; "
            f"samplers are 0 (uniform), 1 (log uniform) and 2 (custom), this is {kind}"
        )
    return Alias(probabilities, alias, keep)


def engine_of(source: Sampler, seed: int, random: Random) -> MersenneTwister:
    """The engine of that seed; for seed 0 a fast one, whose seed the program's source draws."""
    if seed != 0:
        return source.engine(seed)
    generator = random(0)
    device = "cpu" if generator is None else generator.device
    drawn = torch.randint(1, 2**31, (1,), generator=generator, device=device)
    engine = AnyWords if source.engine is Twister64 else source.engine
    return engine(int(drawn.item()))


def draw_unique(source: Sampler, engine: MersenneTwister, count: int) -> tuple[Integers, int]:
    """`count` different classes in the order in which they came, and the number of draws."""
    drawn = source.draw(engine, 2 * count)
    while True:
        _, first = np.unique(drawn, return_index=True)
        if first.size >= count:
            places = np.sort(first)[:count]
            return drawn[places], int(places[-1]) + 1
        drawn = np.concatenate((drawn, source.draw(engine, drawn.size)))
