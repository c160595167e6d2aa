"""`SearchSpace`: which networks a search may try; users write a subclass."""

from __future__ import annotations

from typing import Any

__all__ = ["SearchSpace"]


class SearchSpace:
    """Networks by tokens, lists of whole numbers."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        pass

    def init_tokens(self) -> list[int]:
        """The tokens that a search begins with."""
        raise NotImplementedError("SearchSpace.init_tokens")

    def range_table(self) -> list[int]:
        """Token i is from 0 to range_table[i] - 1."""
        raise NotImplementedError("SearchSpace.range_table")

    def create_net(self, tokens: list[int]) -> Any:
        """Startup, training and test program, what these two fetch, and their readers."""
        raise NotImplementedError("SearchSpace.create_net")

    def get_model_latency(self, program: Any) -> float:
        """How long a program takes, in the unit of the strategy's `target_latency`."""
        raise NotImplementedError("SearchSpace.get_model_latency")
