"""`CommunicateTopology`: ranks as a grid.

Workers are numbered along `data` first, then `pipe`, `sharding`, `sep` and `model`, so that the
members of a model group are neighbours.
"""

from __future__ import annotations

import itertools
import math
from collections import namedtuple
from collections.abc import Sequence
from typing import Any

# The axes by what strategies call their degrees, outermost first.
ORDER = {"dp": "data", "pp": "pipe", "sharding": "sharding", "sep": "sep", "mp": "model"}
AXES = tuple(ORDER.values())


class CommunicateTopology:
    """A grid of ranks, the last axis innermost. dims: how long each axis is.

    ValueError for an axis that there isn't, a coordinate that is missing, or a rank outside.
    """

    def __init__(
        self,
        hybrid_group_names: Sequence[str] = AXES,
        dims: Sequence[int] = (1, 1, 1, 1, 1),
    ) -> None:
        if len(hybrid_group_names) != len(dims) or any(one < 1 for one in dims):
            raise ValueError(
                f"a grid of {', '.join(hybrid_group_names)} needs a length of 1 or more for each, "
                f"not {list(dims)}"
            )
        self._names, self._dims = list(hybrid_group_names), list(dims)
        make: Any = namedtuple
        kind: Any = make("Coordinate", self._names)
        self.coordinate = kind
        self._coords: list[Any] = [kind(*one) for one in itertools.product(*map(range, self._dims))]
        self._ranks = {one: rank for rank, one in enumerate(self._coords)}

    def get_hybrid_group_names(self) -> list[str]:
        """The axes, outermost first."""
        return self._names

    def get_dim(self, axis_name: str) -> int:
        """How long an axis is."""
        return self._dims[self._axis(axis_name)]

    get_dim_size = get_dim

    def world_size(self) -> int:
        """How many ranks there are."""
        return math.prod(self._dims)

    def get_rank(self, **args: int) -> int:
        """The rank at a coordinate, of which every axis must be given."""
        if sorted(args) != sorted(self._names):
            raise ValueError(f"a rank is told by {', '.join(self._names)}, not by {list(args)}")
        at = self.coordinate(**args)
        if at not in self._ranks:
            raise ValueError(f"{at} is outside of {self.shown()}")
        return self._ranks[at]

    def get_coord(self, rank: int) -> Any:
        """Where a rank is: a named tuple."""
        if not 0 <= rank < len(self._coords):
            raise ValueError(f"rank {rank} is outside of {self.shown()}")
        return self._coords[rank]

    def get_axis_list(self, axis_name: str, index: int) -> list[int]:
        """The ranks at `index` of an axis."""
        axis = self._axis(axis_name)
        return [rank for rank, at in enumerate(self._coords) if at[axis] == index]

    def get_fused_ranks(self, fused_axis: Sequence[str]) -> list[list[int]]:
        """The ranks in lists: those of one list differ in these axes only."""
        fused = {self._axis(one) for one in fused_axis}
        lists: dict[tuple[int, ...], list[int]] = {}
        for rank, at in enumerate(self._coords):
            fixed = tuple(one for axis, one in enumerate(at) if axis not in fused)
            lists.setdefault(fixed, []).append(rank)
        return list(lists.values())

    def get_comm_list(self, axis_name: str) -> list[list[int]]:
        """The ranks in lists along an axis."""
        return self.get_fused_ranks([axis_name])

    def get_rank_from_stage(self, global_rank: int, **kwargs: int) -> int:
        """The rank that differs from another one in these coordinates."""
        return self.get_rank(**{**self.get_coord(global_rank)._asdict(), **kwargs})

    def _axis(self, name: str) -> int:
        if name not in self._names:
            raise ValueError(f"{name!r} is no axis of {', '.join(self._names)}")
        return self._names.index(name)

    def shown(self) -> str:
        """All axes with their lengths."""
        return " x ".join(f"{name} {n}" for name, n in zip(self._names, self._dims, strict=True))
