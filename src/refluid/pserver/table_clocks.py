"""When rows were updated, by the clock of another server's table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def on_clock(last: Tensor, theirs: Mapping[str, Any], own: Mapping[str, Any]) -> Tensor:
    """Moments of `theirs`, int64, on `own` clock: in the same pass, and in the same order there.

    theirs, own: what `SparseTable.marks` gave.
    """
    found, target = ([*one["ends"], one["clock"]] for one in (theirs, own))
    common = min(len(found), len(target))
    when = np.interp(last.numpy(), found[-common:], target[-common:])
    return torch.from_numpy(np.ceil(when)).long()
