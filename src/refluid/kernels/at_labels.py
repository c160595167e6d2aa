"""Numbers at the labels of rows, taken and put, of which some labels are ignored.

Torch looks for the ignored ones and replaces them in five passes over the labels, and writes zeros
before it puts numbers among them. Large ones take one pass, shared among torch's threads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.kernels.label_loops import put_at, take_at

# So many numbers are a part of the work that a thread takes.
_PART = 2**15


def suits(label: Tensor, *given: Tensor) -> bool:
    """Whether these are for labels [..., 1], or [...], and rows [..., n]; others as the labels."""
    rows = given[0]
    flat = label.shape if label.dim() < rows.dim() else label.shape[:-1]
    if flat != rows.shape[:-1] or label.numel() != flat.numel() or not rows.shape[-1]:
        return False
    if label.dtype is not torch.int64 or any(one.dtype is not torch.float32 for one in given):
        return False
    if not label.is_contiguous() or not rows.is_contiguous():
        return False
    noted = torch.is_grad_enabled() and any(one.requires_grad for one in given)
    return not noted and all(one.is_cpu for one in (label, *given))


def take(x: Tensor, label: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    """x at the labels, at 0 for those ignored; and -1 for each label, 0 for these: [..., 1]."""
    found: tuple[Tensor, Tensor] = torch.ops.refluid.take_at_labels(x, label, ignored)
    return found


def put(value: Tensor, label: Tensor, classes: int, ignored: int) -> Tensor:
    """[..., classes] of zeros, but value [..., 1] at the labels that aren't ignored."""
    out: Tensor = torch.ops.refluid.put_at_labels(value, label, classes, ignored)
    return out


def _take(x: Tensor, label: Tensor, ignored: int) -> tuple[Tensor, Tensor]:
    width = x.shape[-1]
    found, signs = (x.new_empty(*x.shape[:-1], 1) for _ in range(2))
    counter, bad = (torch.zeros(1, dtype=torch.int64) for _ in range(2))
    rows, places, part = x.view(-1, width), label.view(-1), max(1, _PART // width)
    take_at(counter, rows, places, ignored, found.view(-1), signs.view(-1), bad, part)
    if bad[0]:
        _refuse(rows, places, ignored)
    return found, signs


def _put(value: Tensor, label: Tensor, classes: int, ignored: int) -> Tensor:
    out = value.new_empty(*value.shape[:-1], classes)
    counter, bad = (torch.zeros(1, dtype=torch.int64) for _ in range(2))
    rows, places, part = out.view(-1, classes), label.view(-1), max(1, _PART // classes)
    put_at(counter, value.reshape(-1), places, ignored, rows, bad, part)
    if bad[0]:
        _refuse(rows, places, ignored)
    return out


def _refuse(rows: Tensor, places: Tensor, ignored: int) -> None:
    """Torch's own error of a label that is no column."""
    rows.gather(-1, places.masked_fill(places == ignored, 0).unsqueeze(-1))


# Operators of torch's, as in `epilogues.py`.
if not hasattr(torch.ops.refluid, "take_at_labels"):
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define("take_at_labels(Tensor x, Tensor label, int ignored) -> (Tensor, Tensor)")
    _library.define("put_at_labels(Tensor value, Tensor label, int classes, int ignored) -> Tensor")
    _library.impl("take_at_labels", _take, "CPU")
    _library.impl("put_at_labels", _put, "CPU")
