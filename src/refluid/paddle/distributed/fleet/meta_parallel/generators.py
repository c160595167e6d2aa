"""Random numbers that each member of a model group draws for itself, or all alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from refluid.comm.world import world
from refluid.core import random

MODEL_PARALLEL_RNG = "model_parallel_rng"


class RNGStatesTracker:
    """States of the generators by name. ValueError for a name or seed that is there already, and
    for a name that isn't there."""

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forgets all."""
        self.states_: dict[str, Any] = {}
        self.seeds_: set[int] = set()

    def add(self, name: str, seed: int) -> None:
        """A state that follows from a seed."""
        if seed in self.seeds_:
            raise ValueError(f"seed {seed} already exists")
        if name in self.states_:
            raise ValueError(f"state {name} already exists")
        before = random.states()
        random.seed_all(seed)
        self.seeds_.add(seed)
        self.states_[name] = random.states()
        random.set_states(before)

    def get_states_tracker(self) -> dict[str, Any]:
        """The states, for `set_states_tracker`."""
        return dict(self.states_)

    def set_states_tracker(self, states: dict[str, Any]) -> None:
        """Puts the states back."""
        self.states_ = dict(states)

    @contextmanager
    def rng_state(self, name: str = MODEL_PARALLEL_RNG) -> Iterator[None]:
        """Within the block random numbers follow from that state, which goes on."""
        if name not in self.states_:
            raise ValueError(f"state {name} does not exist")
        before = random.states()
        random.set_states(self.states_[name])
        try:
            yield
        finally:
            self.states_[name] = random.states()
            random.set_states(before)


_tracker = RNGStatesTracker()


def get_rng_state_tracker() -> RNGStatesTracker:
    """That of this process."""
    return _tracker


def model_parallel_random_seed(seed: int | None = None) -> None:
    """Seeds all random numbers alike in all processes, and those of the tracker in each by itself.

    seed: any where None, and then of the tracker only.
    """
    own = seed if seed is not None else int(np.random.default_rng().integers(1 << 20))
    _tracker.reset()
    if seed is not None:
        random.seed_all(seed)
    _tracker.add(MODEL_PARALLEL_RNG, own + 1 + world().rank)
