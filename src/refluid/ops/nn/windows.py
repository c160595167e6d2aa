"""Paddings of convolutions and pools, and images that are too small for a window."""

from __future__ import annotations

from collections.abc import Sequence

from refluid.core.errors import EnforceNotMet
from refluid.core.notices import tell_once
from refluid.ir.operator import Operator
from refluid.ops.infer import infer_by_probing
from refluid.ops.registry import OperatorDef

Pads = list[tuple[int, int]]
_SLOTS = "Input", "Filter"


def resolve(
    paddings: Sequence[int],
    algorithm: str,
    sizes: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
) -> Pads:
    """(before, after) for each spatial dimension.

    `paddings` holds one number per dimension, or two (before, after). VALID pads nothing; SAME
    pads so that the output has ceil(size / stride) elements, the odd one at the end.
    EnforceNotMet for windows without elements, and for steps of nothing.
    """
    for name, given in (("the window", kernel), ("strides", strides)):
        if min(given) < 1:
            raise EnforceNotMet(f"{name} {list(given)}: each size has to be at least 1")
    if algorithm == "VALID":
        return [(0, 0)] * len(sizes)
    if algorithm == "SAME":
        pads = []
        for size, extent, stride in zip(sizes, kernel, strides, strict=True):
            total = max((-(-size // stride) - 1) * stride + extent - size, 0)
            pads.append((total // 2, total - total // 2))
        return pads
    if len(paddings) == len(sizes):
        return [(pad, pad) for pad in paddings]
    return [(paddings[2 * i], paddings[2 * i + 1]) for i in range(len(sizes))]


def reach(pads: Pads, sizes: Sequence[int], kernel: Sequence[int]) -> Pads:
    """`pads` with more at the end where even one window would not fit: Fluid has one there."""
    if all(
        sum(pair) + size >= extent for pair, size, extent in zip(pads, sizes, kernel, strict=True)
    ):
        return pads
    return [
        (before, max(after, extent - size - before))
        for (before, after), size, extent in zip(pads, sizes, kernel, strict=True)
    ]


def stretch(
    pads: Pads, sizes: Sequence[int], kernel: Sequence[int], strides: Sequence[int]
) -> Pads:
    """`pads` with more at the end where a window does not fit by less than a stride.

    Fluid counts windows by a division that cuts towards zero: there is one, and zeros lie outside.
    """
    lacking = [
        extent - size - sum(pair) for pair, size, extent in zip(pads, sizes, kernel, strict=True)
    ]
    return [
        (before, after + (lack if 0 < lack < stride else 0))
        for (before, after), lack, stride in zip(pads, lacking, strides, strict=True)
    ]


def symmetric(pads: Pads) -> list[int] | None:
    """The paddings as one number per dimension, or None where before and after differ."""
    return [before for before, _ in pads] if all(a == b for a, b in pads) else None


def flat(pads: Pads) -> list[int]:
    """The paddings as `torch.nn.functional.pad` wants them: last dimension first."""
    return [size for pair in reversed(pads) for size in pair]


def _small(op: Operator) -> list[int]:
    """The dimensions of Input, of known sizes, in which not even one window fits."""
    image, kernel = (list(op.block.var_recursive(op.input(one)[0]).shape) for one in _SLOTS)
    if len(image) != len(kernel):
        return []
    first = 1 if op.attr("data_format") in ("NHWC", "NDHWC") else 2
    strides, algorithm = op.attr("strides"), op.attr("padding_algorithm")
    extent = [(k - 1) * d + 1 for k, d in zip(kernel[2:], op.attr("dilations"), strict=True)]
    sizes = image[first : first + len(extent)]
    pads = resolve(op.attr("paddings"), algorithm, sizes, extent, strides)
    pads = stretch(pads, sizes, extent, strides)
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
