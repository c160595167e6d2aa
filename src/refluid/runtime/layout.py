"""Which state a plan keeps channels-last: the filters of networks made of wide convolutions.

torch's convolutions take their layout from the filter, and everything that follows takes it from
them; wide convolutions run faster channels-last, and so do max pools on the CPU. Shapes and values
stay as they are, only the strides change.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import torch

from refluid.core.scope import Cell
from refluid.ir.operator import Operator
from refluid.ops.registry import facts_of, find

# Channels that make a convolution wide, and how many such a network needs. On the CPU nets of two
# to eight convolutions of 8 to 64 channels gain 1.2 to 1.5, LeNet's of 6 and 16 lose 0.05. One
# alone, whose images are turned round before it, gains 1.1 to 1.8 with a pool and loses 0.1 to 0.3
# without.
WIDE = {"cpu": 8, "cuda": 32}
ENOUGH = {"cpu": 1, "cuda": 8}

# Replicas may share variables: one of them lays a value out, for all.
_laying = threading.Lock()


Hold = Callable[[Sequence[Cell]], None]
Strides = Callable[[int, int, int, int], tuple[int, int, int, int]]


def laying(ops: Sequence[Operator], device: torch.device, layout: str) -> tuple[set[str], Hold]:
    """Which state is to be held in an order of its own, and what holds variables so.

    layout: "auto": filters channels-last where they are wide; "always": also where they are narrow;
    "never": none, also where they were.
    """
    if layout == "auto" or device.type not in WIDE:
        return channels_last_state(ops, device), hold_channels_last
    filters, _ = _filters(ops, device)
    return set(filters) | _beside(ops, filters), _HOLDS[layout]


def channels_last_state(ops: Sequence[Operator], device: torch.device) -> set[str]:
    """Names of the filters, and of what optimizers keep beside them, to hold channels-last."""
    if device.type not in WIDE:
        return set()
    filters, wide = _filters(ops, device)
    if len(wide) < ENOUGH[device.type] or 2 * len(wide) < len(filters):
        return set()
    if len(filters) == 1 and not any(facts_of(op.type).pools for op in ops):
        return set()
    return set(filters) | _beside(ops, filters)


def _filters(
    ops: Sequence[Operator], device: torch.device
) -> tuple[dict[str, tuple[int, ...]], set[str]]:
    """The shapes of all filters, by name, and the names of wide ones."""
    filters: dict[str, tuple[int, ...]] = {}
    wide: set[str] = set()
    # In mixed precision a filter is cast first, which keeps its layout.
    casts = {op.output("Out")[0]: op.input("X")[0] for op in ops if facts_of(op.type).casts}
    for op in ops:
        definition = find(op.type)
        if definition is None or not definition.filter or op.attr("data_format") == "NHWC":
            continue
        (used,) = op.input(definition.filter)
        name = casts.get(used, used)
        var = op.block.find_var_recursive(name)
        if var is not None and var.persistable and len(var.shape) == 4:
            filters[name] = var.shape
            channels = min(var.shape[0], var.shape[1] * int(op.attr("groups") or 1))
            wide |= {name} if channels >= WIDE[device.type] else set()
    return filters, wide


def _beside(ops: Sequence[Operator], filters: dict[str, tuple[int, ...]]) -> set[str]:
    """State of the filters' shapes that some operator overwrites together with a filter."""
    found: set[str] = set()
    for op in _with_nested(ops):
        definition = find(op.type)
        slots = definition.mutates.values() if definition else ()
        names = [name for slot in slots for name in op.input(slot)]
        shapes = {filters[name] for name in names if name in filters}
        for name in names:
            var = op.block.find_var_recursive(name)
            if var is not None and var.shape in shapes:
                found.add(name)
    return found


def _with_nested(ops: Sequence[Operator]) -> Iterator[Operator]:
    for op in ops:
        yield op
        for block in op.sub_blocks():
            yield from _with_nested(block.ops)


def hold_channels_last(cells: Sequence[Cell]) -> None:
    """Puts the values of these variables into channels-last memory, if they are not yet."""
    _hold(cells, _strides, torch.channels_last)


def hold_plain(cells: Sequence[Cell]) -> None:
    """Puts the values of these variables into plain memory, if they are not yet."""
    _hold(cells, _plain_strides, torch.contiguous_format)


_HOLDS: dict[str, Hold] = {"always": hold_channels_last, "never": hold_plain}


def _hold(cells: Sequence[Cell], strides: Strides, order: torch.memory_format) -> None:
    for cell in cells:
        if cell.value.stride() != strides(*cell.value.shape):
            with _laying:
                _lay(cell, strides(*cell.value.shape), order)


def _lay(cell: Cell, wanted: tuple[int, ...], order: torch.memory_format) -> None:
    if cell.value.stride() != wanted:
        laid = cell.value.contiguous(memory_format=order)
        # Where a dimension has one element torch takes any strides for an order, and convolutions
        # take them for anything else.
        cell.value = laid.as_strided(laid.shape, wanted)


def _strides(_: int, channels: int, height: int, width: int) -> tuple[int, int, int, int]:
    return height * width * channels, 1, width * channels, channels


def _plain_strides(_: int, channels: int, height: int, width: int) -> tuple[int, int, int, int]:
    return channels * height * width, height * width, width, 1
