"""`paddle.summary`: a network's layers with the sizes of what they give, as a table."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from refluid.build import at_once
from refluid.ir.variable import Variable
from refluid.paddle.hapi.layer_calls import LayerCall, called

_MEGA = 1024.0**2


def summary(
    net: Any, input_size: Any = None, dtypes: Any = None, input: Any = None
) -> dict[str, int]:
    """Prints what a network consists of; how many parameters it has, and how many are trained.

    input_size: sizes of what it is given, or a list of such; None or -1 is 1. input: what it is
    given, instead. Functions must run at once.
    """
    if input_size is None and input is None:
        raise ValueError("input_size and input cannot be None at the same time")
    if not at_once():
        raise RuntimeError("paddle.summary runs the network: call paddle.disable_static() before")
    calls, inputs = called(net, input_size, dtypes, input)
    rows, totals = dict[int, tuple[str, ...]](), Counter[str]()
    for one in calls:
        layer, count = one.layer, sum(_size(p.shape) for p in one.layer.parameters(False))
        if id(layer) not in rows:
            totals["all"] += count
            totals["trained"] += sum(_size(p.shape) for p in _trained(layer))
            totals["made"] += _elements(one.made)
        number = int(layer.full_name().rpartition("_")[2]) + 1
        rows[id(layer)] = (f"{type(layer).__name__}-{number}", *_sizes(one), f"{count:,}")
    print(_table(list(rows.values()), totals, sum(map(_elements, inputs))))
    return {"total_params": totals["all"], "trainable_params": totals["trained"]}


def _trained(layer: Any) -> list[Any]:
    return [one for one in layer.parameters(False) if one.trainable]


def _size(shape: Any) -> int:
    return math.prod(int(one) for one in shape)


def _elements(value: Any) -> int:
    if isinstance(value, Variable):
        return _size(value.shape)
    if isinstance(value, dict):
        return sum(map(_elements, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_elements, value))
    return 0


def _shapes(value: Any) -> Any:
    if isinstance(value, Variable):
        return list(value.shape)
    if isinstance(value, dict):
        return {name: _shapes(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_shapes(one) for one in value]
    return []


def _sizes(call: LayerCall) -> tuple[str, str]:
    return str([_shapes(one) for one in call.given]), str(_shapes(call.made))


def _table(rows: list[tuple[str, ...]], totals: Counter[str], given: int) -> str:
    heads = ("Layer (type)", "Input Shape", "Output Shape", "Param #")
    widths = [max(low, *(len(row[n]) for row in rows)) for n, low in enumerate((15, 20, 20, 15))]

    def line(cells: tuple[str, ...]) -> str:
        return " ".join(f"{one:^{width}}" for one, width in zip(cells, widths, strict=True))

    whole = sum(widths) + 5
    made, held = 2.0 * totals["made"] * 4 / _MEGA, totals["all"] * 4 / _MEGA
    size = given * 4 / _MEGA
    return "\n".join(
        [
            "-" * whole,
            line(heads),
            "=" * whole,
            *map(line, rows),
            "=" * whole,
            f"Total params: {totals['all']:,}",
            f"Trainable params: {totals['trained']:,}",
            f"Non-trainable params: {totals['all'] - totals['trained']:,}",
            "-" * whole,
            f"Input size (MB): {size:.2f}",
            f"Forward/backward pass size (MB): {made:.2f}",
            f"Params size (MB): {held:.2f}",
            f"Estimated Total Size (MB): {size + made + held:.2f}",
            "-" * whole,
            "",
        ]
    )
