"""How a batch is split among replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch

from refluid.core.arrays import as_array, is_plain
from refluid.core.errors import EnforceNotMet
from refluid.core.values import LoDTensor
from refluid.ir.attributes import OpRole
from refluid.ir.program import Program

_PLAIN = frozenset({"<f4", "<f8", "<i4", "<i8"})


def split_feed(feed: Any, program: Program, count: int) -> list[Mapping[str, Any]]:
    """What each of `count` replicas is fed: its mapping of a list, or its part of all values.

    A shorter list is taken where nothing is trained: those that are left over get its last mapping
    once more, and their results don't count. Raises EnforceNotMet where a list has another length,
    TypeError for other kinds of feeds and ValueError for a name that the program doesn't have.
    """
    if feed is None:
        return [{} for _ in range(count)]
    if isinstance(feed, list | tuple):
        left = count - len(feed)
        if left < 0 or not feed or (left and _is_trained(program)):
            raise EnforceNotMet(
                f"The feed data number {len(feed)} does not match the device number {count}: give "
                "one dict per place (CPU_NUM sets how many CPU places there are); a DataLoader "
                "does with drop_last=True"
            )
        return _alike(feed) + [feed[-1]] * left
    if not isinstance(feed, Mapping):
        raise TypeError(f"feed requires dict as its Parameter. But you passed in {type(feed)}")
    block = program.global_block()
    for name in feed:
        if count > 1 and not block.has_var(name):
            raise ValueError(f"feed names {name!r}, which the program doesn't have")
    split = {name: split_batch(name, value, count) for name, value in feed.items()}
    return [{name: parts[rank] for name, parts in split.items()} for rank in range(count)]


def _is_trained(program: Program) -> bool:
    """Whether it has gradients or updates, which every replica has its part in."""
    roles = OpRole.BACKWARD | OpRole.OPTIMIZE
    return any(op.role & roles for block in program.blocks for op in block.ops)


def _alike(feed: Sequence[Any]) -> list[Mapping[str, Any]]:
    """The mappings of all replicas, which have to name the same variables as the first."""
    for rank, one in enumerate(feed):
        if not isinstance(one, Mapping):
            raise TypeError(f"feed[{rank}] must be a dict, not {type(one).__name__}")
        for here, there, lacking in ((rank, 0, feed[0]), (0, rank, one)):
            missing = sorted(map(repr, feed[here].keys() - lacking.keys()))
            if missing:
                raise ValueError(
                    f"feed[{there}] lacks {', '.join(missing)}, which feed[{here}] has: every "
                    "device has to be fed the same variables"
                )
    return list(feed)


def split_batch(name: str, value: Any, count: int) -> list[Any]:
    """`value` in `count` parts of neighbouring rows, or sequences where it has a LoD.

    The first parts get the remainder: 7 rows for 2 replicas are 4 and 3. Raises EnforceNotMet
    where there are fewer rows or sequences than replicas. Lists of rows are taken, as Fluid's
    compiled programs take them and its plain ones don't.
    """
    if count == 1:
        rows = isinstance(value, list) and any(isinstance(one, list) for one in value)
        return [as_array(value, f"feed of {name!r}") if rows else value]
    lengths = value.recursive_sequence_lengths() if isinstance(value, LoDTensor) else []
    if not isinstance(value, LoDTensor | torch.Tensor | np.ndarray):
        value = as_array(value, f"feed of {name!r}")
    total = len(lengths[0]) if lengths else _rows(value)
    if total < count:
        raise EnforceNotMet(
            f"The batch of {name!r} has {total} {'sequences' if lengths else 'rows'}, fewer than "
            f"the {count} devices that share it: feed larger batches, or set CPU_NUM (for CPUs) "
            "or places to fewer devices"
        )
    if isinstance(value, np.ndarray):
        value = _one_memory(value)
    size, extra = divmod(total, count)
    ends = [(rank + 1) * size + min(rank + 1, extra) for rank in range(count)]
    starts = [0, *ends[:-1]]
    cut = _part_sequences if isinstance(value, LoDTensor) else _part_rows
    return [cut(value, lengths, start, end) for start, end in zip(starts, ends, strict=True)]


def _rows(value: Any) -> int:
    shape = value.shape() if callable(value.shape) else value.shape
    if not len(shape):
        raise EnforceNotMet("a number without dimensions can't be split among devices")
    return int(shape[0])


def _part_rows(value: Any, _lengths: list[list[int]], start: int, end: int) -> Any:
    return value[start:end]


def _one_memory(value: np.ndarray[Any, Any]) -> Any:
    """The array as a tensor where torch can use its memory, so that its parts stay neighbours."""
    usable = is_plain(value) and value.dtype.str in _PLAIN
    return torch.from_numpy(value) if usable else value


def _part_sequences(value: LoDTensor, lengths: list[list[int]], start: int, end: int) -> LoDTensor:
    parts = []
    for level in lengths:
        parts.append(level[start:end])
        start, end = sum(level[:start]), sum(level[:end])
    part = LoDTensor(value.tensor[start:end])
    part.set_recursive_sequence_lengths(parts)
    return part
