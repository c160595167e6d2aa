"""The seed of all random numbers, and where their generators are."""

from __future__ import annotations

from typing import Any

from refluid.core import random


class SeededGenerators:
    """All generators of random numbers, as `paddle.seed` gives them."""

    def __init__(self, number: int) -> None:
        self._number = number

    def initial_seed(self) -> int:
        """The seed that was given."""
        return self._number

    def manual_seed(self, seed: int) -> SeededGenerators:
        """As `paddle.seed`."""
        return manual_seed(seed)


def manual_seed(seed: int) -> SeededGenerators:
    """Seeds the generators of all devices."""
    random.seed_all(int(seed))
    return SeededGenerators(int(seed))


def seed(seed: int) -> SeededGenerators:
    """Has all random numbers follow from a seed, in programs that have none of their own too."""
    return manual_seed(seed)


def get_rng_state(device: str | None = None) -> list[Any]:
    """The states of the generators, for `set_rng_state`."""
    return random.states()


def set_rng_state(state_list: list[Any], device: str | None = None) -> None:
    """Puts the generators back to what `get_rng_state` gave."""
    random.set_states(state_list)


def get_cuda_rng_state() -> list[Any]:
    """The states of the GPUs' generators."""
    return [one for one in random.states() if one[0] != "cpu"]


def set_cuda_rng_state(state_list: list[Any]) -> None:
    """Puts the GPUs' generators back to what `get_cuda_rng_state` gave."""
    random.set_states(state_list)
