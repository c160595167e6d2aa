"""Windows of convolutions and poolings: sizes per dimension and padding in all its spellings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.whole import elements, is_whole

Padding = int | str | Sequence[int] | Sequence[Sequence[int]]
CHANNEL_FIRST = {4: "NCHW", 5: "NCDHW"}
CHANNEL_LAST = {4: "NHWC", 5: "NDHWC"}


def per_dimension(value: int | Sequence[int], count: int, what: str) -> list[int]:
    """One int per spatial dimension. ValueError for another number, TypeError for no ints."""
    values = [value] * count if is_whole(value) else elements(value, what)
    if len(values) != count:
        raise ValueError(f"{what} must be an int or {count} of them, not {value!r}")
    if not all(is_whole(one) for one in values):
        raise TypeError(f"{what} must be whole numbers, not {value!r}")
    return values


def is_channel_last(data_format: str, rank: int, where: str) -> bool:
    """Whether channels are the last dimension. ValueError for a layout `rank` doesn't have."""
    if data_format not in (CHANNEL_FIRST[rank], CHANNEL_LAST[rank]):
        raise ValueError(
            f"{where}: data_format must be {CHANNEL_FIRST[rank]!r} or {CHANNEL_LAST[rank]!r}, "
            f"not {data_format!r}"
        )
    return data_format == CHANNEL_LAST[rank]


def padding_attributes(
    padding: Padding, count: int, channel_last: bool, where: str
) -> dict[str, Any]:
    """Attributes `paddings` and `padding_algorithm`.

    padding: an int, `"SAME"`, `"VALID"`, one number per spatial dimension, a pair per spatial
    dimension in a flat list, or a pair per dimension including batch and channel.
    ValueError for anything else.
    """
    if isinstance(padding, str):
        algorithm = padding.upper()
        if algorithm not in ("SAME", "VALID"):
            raise ValueError(f"{where}: padding {padding!r} is neither 'SAME' nor 'VALID'")
        return {"paddings": [0] * count, "padding_algorithm": algorithm}
    pairs = _pairs(padding, count, channel_last, where)
    if all(before == after for before, after in pairs):
        numbers = [before for before, _ in pairs]
    else:
        numbers = [number for pair in pairs for number in pair]
    return {"paddings": numbers, "padding_algorithm": "EXPLICIT"}


def _pairs(
    padding: int | Sequence[Any], count: int, channel_last: bool, where: str
) -> list[tuple[int, int]]:
    if is_whole(padding):
        return [(padding, padding)] * count
    padding = elements(padding, f"{where}: padding")
    if len(padding) == count + 2 and all(isinstance(one, list | tuple) for one in padding):
        spatial = slice(1, -1) if channel_last else slice(2, None)
        outer = (padding[0], padding[-1 if channel_last else 1])
        if any(tuple(one) != (0, 0) for one in outer):
            raise ValueError(f"{where}: batch and channel can't be padded: {padding!r}")
        return [(int(before), int(after)) for before, after in padding[spatial]]
    if len(padding) == 2 * count:
        return list(zip(padding[::2], padding[1::2], strict=True))
    if len(padding) == count:
        return [(int(one), int(one)) for one in padding]
    raise ValueError(
        f"{where}: padding takes an int, 'SAME', 'VALID', {count} or {2 * count} numbers, or "
        f"{count + 2} pairs, not {padding!r}"
    )
