"""`paddle.flops`: how many multiplications a network takes for one input."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from refluid.fluid.dygraph.parts import convolution, norms, units
from refluid.paddle.hapi.layer_calls import LayerCall, at_once_anyway, called
from refluid.paddle.nn.layer import conv, functions, norm, parameters

Count = Callable[[LayerCall], int]


def _made(call: LayerCall) -> int:
    return int(math.prod(call.made.shape))


def _nothing(_: LayerCall) -> int:
    return 0


def _given(call: LayerCall) -> int:
    return int(math.prod(call.given[0].shape))


def _of_filters(call: LayerCall) -> int:
    """A product for each weight of a filter, and one for its bias, at each place of the result."""
    weight = call.layer.weight.shape
    bias = 1 if call.layer.bias is not None else 0
    return _made(call) * int(math.prod(weight[1:]) + bias)


def _of_transposed(call: LayerCall) -> int:
    weight = call.layer.weight.shape
    each = math.prod(weight) // call.made.shape[1]
    return _made(call) * int(each + (call.layer.bias is not None))


def _of_linear(call: LayerCall) -> int:
    return int(call.layer.weight.shape[0]) * _made(call)


def _of_norm(call: LayerCall) -> int:
    return 2 * _given(call)


def _of_pool(call: LayerCall) -> int:
    """A sum of all elements for each of the result, and a division."""
    places = [
        one // two for one, two in zip(call.given[0].shape[2:], call.made.shape[2:], strict=True)
    ]
    return _made(call) * int(math.prod(places) + 1)


_COUNTS: dict[type, Count] = {
    kind: count
    for count, kinds in (
        (_of_filters, (conv.Conv1D, conv.Conv2D, conv.Conv3D)),
        (_of_filters, (convolution.Conv2D, convolution.Conv3D)),
        (_of_transposed, (conv.Conv1DTranspose, conv.Conv2DTranspose, conv.Conv3DTranspose)),
        (_of_linear, (parameters.Linear, units.Linear)),
        (_of_norm, (norm.BatchNorm2D, norm.BatchNorm3D, norm.BatchNorm, norms.BatchNorm)),
        (_made, (functions.AvgPool1D, functions.AvgPool2D, functions.AvgPool3D)),
        (_of_pool, (functions.AdaptiveAvgPool1D, functions.AdaptiveAvgPool2D)),
        (_of_pool, (functions.AdaptiveAvgPool3D,)),
        (_given, (functions.LeakyReLU,)),
        (_nothing, (functions.ReLU, functions.ReLU6, functions.Dropout)),
    )
    for kind in kinds
}


def flops(
    net: Any,
    input_size: Any,
    custom_ops: Mapping[type, Callable[..., Any]] | None = None,
    print_detail: bool = False,
) -> int:
    """The multiplications of a network for an input of this size; prints them.

    custom_ops: functions (layer, inputs, output) by class of layer; each adds to
    `layer.total_ops`. print_detail: a table of all layers.
    """
    own = dict(custom_ops or {})
    with at_once_anyway():
        every, _ = called(net, input_size, None)
        calls = [one for one in every if not one.layer.sublayers()]
        rows, said = [], set[type]()
        for one in calls:
            kind = type(one.layer)
            count, words = _counted(one, own)
            if kind not in said:
                said.add(kind)
                print(words)
            params = sum(math.prod(p.shape) for p in one.layer.state_dict().values())
            shapes = [list(value.shape) for value in (one.given[0], one.made)]
            rows.append((one.layer.full_name(), *shapes, params, count))
    total = sum(row[4] for row in rows)
    params = sum(math.prod(one.shape) for one in net.state_dict().values())
    if print_detail:
        print(_table(rows))
    print(f"Total Flops: {total}     Total Params: {params}")
    return int(total)


def _counted(call: LayerCall, own: Mapping[type, Callable[..., Any]]) -> tuple[int, str]:
    """The count of a call, and what is said of it."""
    kind = type(call.layer)
    if kind in own:
        before = int(getattr(call.layer, "total_ops", 0))
        call.layer.total_ops = before
        own[kind](call.layer, call.given, call.made)
        return int(call.layer.total_ops) - before, f"Customize Function has been applied to {kind}"
    if kind in _COUNTS:
        return int(_COUNTS[kind](call)), f"{kind}'s flops has been counted"
    return 0, f"Cannot find suitable count function for {kind}. Treat it as zero FLOPs."


def _table(rows: list[Any]) -> str:
    heads = ("Layer Name", "Input Shape", "Output Shape", "Params", "Flops")
    cells = [heads, *(tuple(map(str, row)) for row in rows)]
    widths = [max(len(row[n]) for row in cells) + 2 for n in range(len(heads))]
    rule = "+" + "+".join("-" * one for one in widths) + "+"
    lines = [
        "|" + "|".join(f"{one:^{width}}" for one, width in zip(row, widths, strict=True)) + "|"
        for row in cells
    ]
    return "\n".join([rule, lines[0], rule, *lines[1:], rule])
