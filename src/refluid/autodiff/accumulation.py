"""Several gradients of one variable: renamed as they are made, and summed where first read.

    x@GRAD = f_grad(..)                 x@GRAD@RENAME@block0@0 = f_grad(..)
    x@GRAD = g_grad(..)            ->   x@GRAD@RENAME@block0@1 = g_grad(..)
    .. = h_grad(x@GRAD)                 x@GRAD = sum([.. @0, .. @1])
                                        .. = h_grad(x@GRAD)

Where a program gives one variable two values after each other, Fluid adds the gradients of
both, unless the operator that makes the second value reads the first; so does this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from refluid.autodiff.making import GradientDraft, bare_op
from refluid.autodiff.naming import GradientNames
from refluid.ir.names import RENAME

SlotPlace = tuple[list[str], int]


@dataclass
class _Gradient:
    """Where a gradient was written since it was last complete, and read meanwhile."""

    writers: list[SlotPlace] = field(default_factory=list)
    readers: list[SlotPlace] = field(default_factory=list)
    renamed: int = 0


def accumulate(drafts: Sequence[GradientDraft], names: GradientNames) -> list[GradientDraft]:
    """The useful drafts, with all gradients of a variable summed before they are read.

    Gradients that no operator reads (those of parameters) are summed at the end.
    """
    open_: dict[str, _Gradient] = {}
    result: list[GradientDraft] = []
    for draft in drafts:
        for name in dict.fromkeys(draft.given):
            result += _close(name, open_, names)
        for place, name in _places(draft.op.inputs):
            if name in draft.given and name in open_:
                open_[name].readers.append(place)
        for name in draft.given:
            if name in draft.op.output_arg_names:
                open_.pop(name, None)
        for place, name in _places(draft.op.outputs):
            if name in names.variables:
                open_.setdefault(name, _Gradient()).writers.append(place)
        result.append(draft)
    result += [total for name in list(open_) for total in _close(name, open_, names)]
    return [draft for draft in result if draft.useful]


def _places(slots: dict[str, list[str]]) -> Iterator[tuple[SlotPlace, str]]:
    for slot in sorted(slots):
        for position, name in enumerate(slots[slot]):
            yield (slots[slot], position), name


def _close(name: str, open_: dict[str, _Gradient], names: GradientNames) -> list[GradientDraft]:
    """Renames what was written under one name and sums it; nothing to do for one writer."""
    gradient = open_.get(name, _Gradient())
    if len(gradient.writers) < 2:
        return []
    first, end = gradient.renamed, gradient.renamed + len(gradient.writers)
    parts = [f"{name}{RENAME}block{names.block.idx}@{number}" for number in range(first, end)]
    for (slot, position), part in zip(gradient.writers, parts, strict=True):
        slot[position] = part
    for slot, position in gradient.readers:
        slot[position] = parts[0]
    total = bare_op(names.target, "sum", {"X": parts}, {"Out": [name]}, {"use_mkldnn": False})
    open_[name] = _Gradient([(total.outputs["Out"], 0)], renamed=end)
    return [GradientDraft(total)]
