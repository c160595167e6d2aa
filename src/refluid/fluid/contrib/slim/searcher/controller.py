"""Controllers search lists of whole numbers (tokens) for the one of the largest reward."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

__all__ = ["EvolutionaryController", "SAController"]

Tokens = list[int]
Allowed = Callable[[Tokens], bool]


class EvolutionaryController:
    """Proposes tokens, and is told what they were worth. To be written by subclasses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def update(self, tokens: Tokens, reward: float) -> Any:
        """Takes what tokens were worth."""
        raise NotImplementedError("update")

    def reset(self, range_table: Any, constrain_func: Allowed | None = None) -> None:
        """Begins anew."""
        raise NotImplementedError("reset")

    def next_tokens(self) -> Tokens:
        """What to try next."""
        raise NotImplementedError("next_tokens")


class SAController(EvolutionaryController):
    """Simulated annealing: a change that is worse is taken too, the less likely the later.

    range_table: token i is from 0 to range_table[i] - 1, or from range_table[0][i] to
    range_table[1][i] - 1. After n updates the temperature is `init_temperature` times
    `reduce_rate` ** n. max_iter_number: of changes tried until `constrain_func` allows one.
    """

    def __init__(
        self,
        range_table: Any = None,
        reduce_rate: float = 0.85,
        init_temperature: float = 1024,
        max_iter_number: int = 300,
    ) -> None:
        super().__init__()
        if not 0 < reduce_rate <= 1:
            raise ValueError(f"reduce_rate is a factor between 0 and 1, not {reduce_rate}")
        self._ranges = _ranges(range_table)
        self._rate, self._start, self._most = reduce_rate, init_temperature, max_iter_number
        self._allowed: Allowed | None = None
        self._draws = np.random.default_rng(np.random.randint(2**31))
        self._begin([])

    def _begin(self, tokens: Sequence[int]) -> None:
        self._tokens, self._reward, self._updates = list(tokens), -math.inf, 0
        self.best_tokens, self.max_reward = list(tokens), -math.inf

    def reset(  # type: ignore[override]  # as in Fluid
        self,
        range_table: Any,
        init_tokens: Sequence[int],
        constrain_func: Allowed | None = None,
    ) -> None:
        """Begins anew from `init_tokens`. constrain_func: whether tokens may be tried."""
        self._ranges, self._allowed = _ranges(range_table), constrain_func
        if len(init_tokens) != len(self._ranges):
            raise ValueError(f"{len(init_tokens)} tokens, but ranges of {len(self._ranges)}")
        self._begin(init_tokens)

    def update(self, tokens: Tokens, reward: float) -> None:
        """Goes on from these tokens where they are better, or by chance."""
        self._updates += 1
        temperature = self._start * self._rate**self._updates
        if reward > self._reward or self._draws.random() <= _chance(
            reward - self._reward, temperature
        ):
            self._tokens, self._reward = list(tokens), reward
        if reward > self.max_reward:
            self.best_tokens, self.max_reward = list(tokens), reward

    def next_tokens(self, control_token: Sequence[int] | None = None) -> Tokens:
        """The present tokens (or `control_token`) with one changed at random.

        RuntimeError where none that is allowed was found in `max_iter_number` changes.
        """
        tokens = list(self._tokens if control_token is None else control_token)
        changeable = [place for place, (low, high) in enumerate(self._ranges) if high - low > 1]
        if not changeable:
            return tokens
        for _ in range(self._most):
            tried = list(tokens)
            place = int(self._draws.choice(changeable))
            low, high = self._ranges[place]
            others = [one for one in range(low, high) if one != tokens[place]]
            tried[place] = int(self._draws.choice(others))
            if self._allowed is None or self._allowed(tried):
                return tried
            if control_token is None and self._draws.random() < 0.5:
                tokens = tried  # from here something allowed may be one change away
        raise RuntimeError(
            f"none of {self._most} changes gives tokens that are allowed: loosen the limit, or "
            "give max_iter_number"
        )


def _ranges(table: Any) -> list[tuple[int, int]]:
    if table is None:
        return []
    if len(table) == 2 and all(isinstance(one, list | tuple) for one in table):
        return [(int(low), int(high)) for low, high in zip(*table, strict=True)]
    return [(0, int(high)) for high in table]


def _chance(gain: float, temperature: float) -> float:
    if math.isnan(gain) or temperature <= 0:
        return 0.0
    return math.exp(max(min(gain / temperature, 0.0), -700.0))
