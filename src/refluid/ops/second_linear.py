"""Gradients of gradients of operators that are linear, at least where they are smooth."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.ops.drafts import say
from refluid.ops.gradient_slots import made_of_flows, of_the_flow, second_order
from refluid.ops.math import reducing, reduction  # noqa: F401  (they define what is named)
from refluid.ops.nn import activation, dropout  # noqa: F401  (likewise)
from refluid.ops.tensor import padding, shaping, slicing  # noqa: F401  (likewise)
from refluid.ops.tensor.joining import concat

Grad = Tensor | None


@second_order("concat", "X* AxisTensor? DDX*", "DDOut?")
def concat_grad_grad(X: list[Tensor], AxisTensor: Grad, DDX: list[Grad], *, axis: int = 0) -> Any:
    """All DDX one after the other; zeros for inputs that have no gradient."""
    flows = [torch.zeros_like(x) if dd is None else dd for x, dd in zip(X, DDX, strict=True)]
    return concat(flows, AxisTensor, axis=axis)


@second_order("stack", "DDX*", "DDY?")
def stack_grad_grad(DDX: list[Grad], *, axis: int = 0) -> Tensor:
    """All DDX along a new dimension; zeros for inputs that have no gradient."""
    like = next(dd for dd in DDX if dd is not None)
    return torch.stack([torch.zeros_like(like) if dd is None else dd for dd in DDX], axis)


@second_order("gather", "Index DDX", "DDOut?")
def gather_grad_grad(Index: Tensor, DDX: Tensor, *, overwrite: bool = True) -> Tensor:
    """The rows of DDX that Index names; zeros for those that `overwrite` left out of the first."""
    rows = Index.reshape(-1)
    out = DDX.index_select(0, rows)
    if not overwrite:
        return out
    numbers = torch.arange(rows.numel(), device=rows.device)
    last = numbers.new_zeros(DDX.shape[0]).index_copy_(0, rows.long(), numbers)
    return out.mul_((last[rows] == numbers).reshape(-1, *(1,) * (out.dim() - 1)))


# Linear operators: from which input to which output, and what their gradient's gradient is of.
_ALIKE = "crop_tensor expand gather_nd mean reduce_mean reduce_sum"
_LINEAR = {name: ("X", "Out", name) for name in _ALIKE.split()}
_LINEAR["unstack"] = ("X", "Y", "unstack")
_LINEAR |= {name: ("Input", "Out", name) for name in ("slice", "strided_slice")}
_LINEAR |= {
    f"{name}2": ("X", "Out", name) for name in ("flatten", "squeeze", "transpose", "unsqueeze")
}
# Those that multiply each element by a number, which hardly ever changes with X.
_BY_ELEMENT = "brelu ceil clip dropout floor hard_shrink hard_sigmoid relu6 round softshrink"

for _name, _row in _LINEAR.items():
    say(f"{_name}_grad", maker=made_of_flows(*_row))
for _name in ("pad", "pad2d"):  # what lies around depends on nothing
    say(f"{_name}_grad", maker=made_of_flows("X", "Out", _name, pad_value=0.0))
for _name in f"{_BY_ELEMENT} thresholded_relu".split():
    say(f"{_name}_grad", maker=of_the_flow)
