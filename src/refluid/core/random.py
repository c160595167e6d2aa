"""Random numbers of plans: one generator per device, and seeded ones where a program says so."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch

_generators: dict[torch.device, torch.Generator] = {}
# What `seed_all` said, for generators that come later.
_seed: int | None = None


class RandomSource:
    """Gives operators their generator: `source(seed)`.

    Seed 0 is the device's generator, which goes on from run to run; any other seed is a fresh
    generator of that seed, so the operator draws the same numbers in every run, as in Fluid.
    seeded: whether it has given any of the latter.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.seeded = False

    def __call__(self, seed: int) -> torch.Generator:
        if seed:
            self.seeded = True
            return torch.Generator(self.device).manual_seed(seed)
        generator = _generators.get(self.device)
        if generator is None:
            generator = _generators[self.device] = _made(self.device)
        return generator


def _made(device: torch.device) -> torch.Generator:
    generator = torch.Generator(device)
    if _seed is None:
        generator.seed()
        return generator
    return generator.manual_seed(_seed)


def seed_all(seed: int) -> None:
    """Seeds the generators of all devices, those too that are used later."""
    global _seed
    _seed = seed
    for generator in _generators.values():
        generator.manual_seed(seed)


def states() -> list[tuple[str, torch.Tensor]]:
    """The states of the generators, with the names of their devices."""
    return [(str(device), generator.get_state()) for device, generator in _generators.items()]


def set_states(given: Iterable[tuple[str, torch.Tensor]]) -> None:
    """Puts generators back to what `states` gave."""
    for name, state in given:
        device = torch.device(name)
        if device not in _generators:
            _generators[device] = _made(device)
        _generators[device].set_state(state)


@contextmanager
def unchanged(device: torch.device) -> Iterator[None]:
    """What is drawn within the block will be drawn again after it, here and from torch itself."""
    generator = _generators.get(device)
    state = generator.get_state() if generator is not None else None
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            if generator is not None and state is not None:
                generator.set_state(state)
