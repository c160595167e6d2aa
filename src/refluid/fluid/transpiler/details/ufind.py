"""UnionFind: which elements belong together."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

__all__ = ["UnionFind"]


class UnionFind:
    """Sets of elements that grow together. elementes: those that are known, each in its own set."""

    def __init__(self, elementes: Iterable[Hashable] | None = None) -> None:
        self._parent: dict[Hashable, Hashable] = {one: one for one in elementes or ()}

    def find(self, x: Hashable) -> Hashable | None:
        """The element that stands for the set of `x`; None where it is unknown."""
        if x not in self._parent:
            return None
        while self._parent[x] != x:
            self._parent[x] = x = self._parent[self._parent[x]]
        return x

    def union(self, x: Hashable, y: Hashable) -> None:
        """Makes one set of the two."""
        first, second = self.find(x), self.find(y)
        if first != second:
            self._parent[first] = second

    def is_connected(self, x: Hashable, y: Hashable) -> bool:
        """Whether both are in one set."""
        return self.find(x) == self.find(y)
