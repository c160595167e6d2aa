"""Batches of sequences as peers without LoD want them; made before the clock runs."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from benchmarks.suite.data import LENGTHS
from refluid.measure.timing import Feed

Array = npt.NDArray[np.generic]


def padded(feed: Feed) -> Feed:
    """The feed with sequences padded [batch, longest], and what masks them.

    rows: where the real elements are in the flattened batch; x_rows: those of the array x;
    mask [batch, longest]; turned: each sequence's positions in reverse. A feed without sequences
    comes back as it is, but slots of ids become one array.
    """
    names = [name.removesuffix(LENGTHS) for name in feed if name.endswith(LENGTHS)]
    if not names:
        return _one_slots(feed)
    lengths = feed[names[0] + LENGTHS].astype(np.int64)
    width = int(lengths.max())
    mask = np.arange(width) < lengths[:, None]
    turned = np.where(mask, lengths[:, None] - 1 - np.arange(width), np.arange(width))
    found: Feed = {"mask": mask, "turned": turned, "rows": np.flatnonzero(mask), "lengths": lengths}
    for name in names:
        flat = feed[name].reshape(-1)
        found[f"{name}_rows"] = flat
        found[name] = np.zeros(mask.shape, flat.dtype)
        found[name][mask] = flat
    return found


def _one_slots(feed: Feed) -> Feed:
    slots = [name for name in feed if name.startswith("slot")]
    if not slots:
        return feed
    rest = {name: value for name, value in feed.items() if name not in slots}
    return rest | {"slots": np.concatenate([feed[name] for name in slots], 1)}
