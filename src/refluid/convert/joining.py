"""Which biases become a part of the layer before: add(mul(x, w), b) -> nn.Linear with bias."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from refluid.analysis.uses import Key, key_of
from refluid.convert.reading import keys_read
from refluid.convert.source import Source
from refluid.ir.operator import Operator

# Operator -> slot of its result, slot of its weight.
_LAYERS = {
    "mul": ("Out", "Y"),
    "matmul": ("Out", "Y"),
    "conv2d": ("Output", "Filter"),
    "depthwise_conv2d": ("Output", "Filter"),
    "conv3d": ("Output", "Filter"),
    "conv2d_transpose": ("Output", "Filter"),
    "depthwise_conv2d_transpose": ("Output", "Filter"),
}


@dataclass
class Biases:
    """of: id of an operator -> name of its bias. added_by: id of the sum that is left out -> the
    names of what it read and of its result."""

    of: dict[int, str] = field(default_factory=dict)
    added_by: dict[int, tuple[str, str]] = field(default_factory=dict)


def join_biases(source: Source) -> Biases:
    """Finds sums of a layer's result and a parameter of one number per channel."""
    found = Biases()
    readers = Counter((0, name) for name in source.fetches)
    for block in source.program.blocks:
        for op in block.ops:
            readers.update(keys_read(op))
    for block in source.program.blocks:
        makers = {key_of(block, name): op for op in block.ops for name in op.output_arg_names}
        for op in block.ops:
            if op.type == "elementwise_add":
                _join(source, op, makers.get(key_of(block, op.input("X")[0])), readers, found)
    return found


def _join(
    source: Source, add: Operator, layer: Operator | None, readers: Counter[Key], found: Biases
) -> None:
    (x,), (y,) = add.input("X"), add.input("Y")
    if layer is None or layer.type not in _LAYERS or readers[key_of(add.block, x)] != 1:
        return
    if y in source.values and source.values[y].dim() == 1 and _fits(source, layer, add, y):
        found.of[id(layer)] = y
        found.added_by[id(add)] = x, add.output("Out")[0]


def _fits(source: Source, layer: Operator, add: Operator, bias: str) -> bool:
    slot, weight_slot = _LAYERS[layer.type]
    weight = layer.input(weight_slot)[0]
    if weight not in source.values or layer.input("Bias"):
        return False
    result = layer.block.var_recursive(layer.output(slot)[0])
    rank, axis = len(result.shape), add.attrs.get("axis", -1)
    weights, size = source.values[weight], source.values[bias].shape[0]
    if weight_slot == "Y":
        plain = layer.type == "mul" or _is_plain(layer)
        two = weights.dim() == 2 and weights.shape[1] == size
        return plain and two and axis in (-1, rank - 1)
    transposed = layer.type.endswith("transpose")
    channels = weights.shape[1] * layer.attrs.get("groups", 1) if transposed else weights.shape[0]
    last = layer.attrs.get("data_format") == "NHWC"
    channel = rank - 1 if last else 1
    return bool(channels == size and axis in ((channel, -1) if last else (channel,)))


def _is_plain(layer: Operator) -> bool:
    attrs = layer.attrs
    return (
        not attrs.get("transpose_X")
        and attrs.get("alpha", 1.0) == 1.0
        and not attrs.get("transpose_Y")
    )
