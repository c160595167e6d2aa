"""What a program says of convolutions of images into which the filter doesn't fit."""

from __future__ import annotations

from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_by_probing
from refluid.ops.nn import windows as padding
from refluid.ops.registry import OperatorDef

_SLOTS = "Input", "Filter"


def _small(op: Operator) -> list[int]:
    """The dimensions of Input, of known sizes, in which not even one window fits."""
    image, kernel = (list(op.block.var_recursive(op.input(one)[0]).shape) for one in _SLOTS)
    if len(image) != len(kernel):
        return []
    first = 1 if op.attr("data_format") in ("NHWC", "NDHWC") else 2
    strides, algorithm = op.attr("strides"), op.attr("padding_algorithm")
    extent = [(k - 1) * d + 1 for k, d in zip(kernel[2:], op.attr("dilations"), strict=True)]
    sizes = image[first : first + len(extent)]
    pads = padding.resolve(op.attr("paddings"), algorithm, sizes, extent, strides)
    pads = padding.stretch(pads, sizes, extent, strides)
    every = zip(sizes, pads, extent, strict=True)
    return [first + at for at, (n, pad, k) in enumerate(every) if 0 <= n < k - sum(pad)]


def infer_convolved(definition: OperatorDef, op: Operator) -> None:
    """As computed; the result of images too small for the filter is of unknown size.

    paddle 2.6.2 builds such operators too: a program that is pruned may go without them.
    """
    if not all(op.block.var_recursive(op.input(one)[0]).has_description() for one in _SLOTS):
        return
    try:
        small = _small(op)
    except (EnforceNotMet, ValueError, IndexError):  # the body says what is wrong
        small = []
    if not small:
        infer_by_probing(definition, op)
        return
    name = op.input("Input")[0]
    shape = op.block.var_recursive(name).shape
    tell_once(
        f"operator {op.type}: its filter is larger than its input {name} {list(shape)} with its "
        f"padding, so running it will be an error\n{op.made_at}"
    )
    known = [-1 if at in small else size for at, size in enumerate(shape)]
    infer_by_probing(definition, op, {name: known})
