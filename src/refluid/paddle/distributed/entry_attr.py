"""`paddle.distributed.entry_attr`: which ids get a row in a table of parameter servers."""

from __future__ import annotations

__all__ = ["CountFilterEntry", "ProbabilityEntry", "ShowClickEntry"]


class EntryAttr:
    """What `paddle.static.nn.sparse_embedding` takes as its `entry`."""

    def __init__(self) -> None:
        self._name = ""

    def _to_attr(self) -> str:
        """As programs have it."""
        raise NotImplementedError("EntryAttr is a base class: use ProbabilityEntry or its like")


class ProbabilityEntry(EntryAttr):
    """A share of all ids gets rows, always the same ones. ValueError unless a float in (0, 1)."""

    def __init__(self, probability: float) -> None:
        super().__init__()
        if not isinstance(probability, float) or not 0 < probability < 1:
            raise ValueError("probability must be a float in (0,1)")
        self._name, self._probability = "probability_entry", probability

    def _to_attr(self) -> str:
        return f"{self._name}:{self._probability}"


class CountFilterEntry(EntryAttr):
    """An id gets its row once it came in so many updates. ValueError unless an int of 0 or more."""

    def __init__(self, count_filter: int) -> None:
        super().__init__()
        if not isinstance(count_filter, int) or isinstance(count_filter, bool) or count_filter < 0:
            raise ValueError("count_filter must be a valid integer greater or equal than 0")
        self._name, self._count_filter = "count_filter_entry", count_filter

    def _to_attr(self) -> str:
        return f"{self._name}:{self._count_filter}"


class ShowClickEntry(EntryAttr):
    """Rows weighed by shows and clicks, which servers here don't do: training by it is refused."""

    def __init__(self, show_name: str, click_name: str) -> None:
        super().__init__()
        if not isinstance(show_name, str) or not isinstance(click_name, str):
            raise ValueError("show_name click_name must be a str")
        self._name, self._names = "show_click_entry", (show_name, click_name)

    def _to_attr(self) -> str:
        return ":".join((self._name, *self._names))
