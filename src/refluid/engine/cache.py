"""The one cache of the engine."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

_KEPT = 64


class Cache(OrderedDict[Hashable, Any]):
    """The latest 64 programs that were prepared. Each is kept alive, so that its id is its own."""

    def keep(self, key: Hashable, prepared: Any) -> None:
        """Adds one, and drops the oldest where there are too many."""
        self[key] = prepared
        if len(self) > _KEPT:
            self.popitem(last=False)
