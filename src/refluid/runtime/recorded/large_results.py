"""How much memory a recorded step needs for results that malloc would map anew every time."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.kernels.malloc import MAPPED
from refluid.runtime.recorded.graph import Kernel, Layout, Part, Value


def large_at_once(steps: Sequence[Part]) -> int:
    """The most bytes of results of at least `MAPPED` bytes on the CPU that exist at one time."""
    ends = {value.storage: index for index, step in enumerate(steps) for value in _seen(step)}
    live: dict[int | None, int] = {}
    most = 0
    for index, step in enumerate(steps):
        live = {storage: size for storage, size in live.items() if ends[storage] >= index}
        live |= _made(step)
        most = max(most, sum(live.values()))
    return most


def _seen(step: Part) -> list[Value]:
    return [value for value in (*step.uses, *step.outs) if value is not None]


def _made(step: Part) -> dict[int | None, int]:
    """Storage -> bytes of the large results that are no views."""
    if not isinstance(step, Kernel):
        return {}
    known = {value.storage for value in step.uses}
    return {
        value.storage: size_of(value.layout)
        for value in step.outs
        if value is not None
        and value.constant is None
        and value.layout is not None
        and value.layout.device.type == "cpu"
        and value.storage not in known
        and size_of(value.layout) >= MAPPED
    }


def size_of(layout: Layout) -> int:
    """Bytes from the first to the last element."""
    if 0 in layout.shape:
        return 0
    last = sum((size - 1) * step for size, step in zip(layout.shape, layout.stride, strict=True))
    return (last + 1) * layout.dtype.itemsize
