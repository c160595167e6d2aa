"""The ids of a step, each once, server by server: what is asked for, and what is sent back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from refluid.kernels.rows.ids import id_loops, sum_rows
from refluid.kernels.rows.lookup import look_up


class DealtIds:
    """Ids, int64 [n], of which each server has some, found in one pass.

    unique: each id once, int64 [m]: those of server s from starts[s] to starts[s + 1]. inverse:
    which of these each of the given ids is, int64 [n]. owners: as of `deal_ids`.
    """

    def __init__(self, ids: Tensor, owners: Tensor, servers: int) -> None:
        count = len(ids)
        size = 1 << max(4, (4 * count - 1).bit_length())
        slots = np.full(size, -1, np.int32)
        starts = np.empty(servers + 1, np.int64)
        found, self.inverse = torch.empty_like(ids), torch.empty_like(ids)
        out = starts, found.numpy(), self.inverse.numpy(), np.empty(count, np.int32)
        id_loops().deal_unique(slots, ids.numpy(), owners.numpy(), *out)
        self.starts: Sequence[int] = starts.tolist()
        self.unique = found[: self.starts[-1]]
        self._given, self._any = ids.clone(), int(owners[0])

    def is_of(self, ids: Tensor) -> bool:
        """Whether these are the same ids in the same order."""
        return torch.equal(ids, self._given)

    def part(self, server: int, values: Tensor) -> Tensor:
        """Of values for `unique`, those of one server: the same memory."""
        return values[self.starts[server] : self.starts[server + 1]]

    def servers(self) -> list[int]:
        """Those that have any of the ids; one of them where there are none."""
        pairs = zip(self.starts, self.starts[1:], strict=False)
        return [server for server, (start, end) in enumerate(pairs) if end > start] or [self._any]

    def spread(self, parts: Mapping[int, Tensor]) -> Tensor:
        """A row for each of the given ids, [n, width], of those that `servers` have of `unique`."""
        ordered = [parts[server] for server in sorted(parts)]
        return look_up(ordered[0] if len(ordered) == 1 else torch.cat(ordered), self.inverse)

    def sums(self, value: Tensor) -> Tensor:
        """Rows for each of the given ids, [n, width], added up for `unique`, [m, width]."""
        return sum_rows(self.inverse, value, len(self.unique))


class KnownRows:
    """Rows of a step's ids as servers gave them: `parts` of `dealt.unique`, by server."""

    def __init__(self, dealt: DealtIds, parts: Mapping[int, Tensor]) -> None:
        self.dealt, self._parts = dealt, parts

    def of(self, ids: Tensor) -> Tensor:
        """A row for each of the dealt ids in the shape of `ids`: (*ids.shape, width)."""
        rows = self.dealt.spread(self._parts)
        return rows.view(*ids.shape, rows.shape[1])
