"""Multi-tensor updates: one pass over the memory of all parameters, whatever their number.

torch's fused kernels take no notice of strides, so that everything is brought into the layout of
the parameters first. They take one learning rate: parameters are grouped by it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor

from refluid.kernels import fused, lists
from refluid.kernels.holders import laid_out_alike
from refluid.ops.required import require_equal

Tensors = list[Tensor]
Rate = Any  # a float or a tensor of one element; torch has an overload for each
# torch's Adam divides by 1 - beta ** step; after so many steps that is 1 in any precision, and
# the bias corrections can be put into the learning rate, where Fluid has them.
_LATE = 1e9


@lru_cache(maxsize=64)
def _constant(value: float, dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.full((1,), value, dtype=dtype, device=device)


_size, _stride, _is_contiguous = Tensor.size, Tensor.stride, Tensor.is_contiguous


def _laid_out_as(params: Tensors, *lists: Tensors) -> list[Tensors]:
    """Each list in the memory layout of `params`; a copy of what differs. Empty ones stay so.

    EnforceNotMet where a shape differs, of which torch's kernels take no notice either.
    """
    sizes, strides = list(map(_size, params)), list(map(_stride, params))
    found = []
    for values in lists:
        if values and list(map(_size, values)) != sizes:
            for param, value in zip(params, values, strict=True):
                require_equal("a gradient or state", value, "its parameter", param.shape)
        if values and list(map(_stride, values)) != strides:
            found.append(as_laid_out(params, values))
        else:
            found.append(values)
    return found


def as_laid_out(params: Tensors, values: Tensors) -> Tensors:
    """The values in the memory layout of `params`; copies of those that differ."""
    return [
        value if laid_out_alike(param, value) else torch.empty_like(param).copy_(value)
        for param, value in zip(params, values, strict=True)
    ]


def memory_orders(params: Tensors) -> list[tuple[int, ...] | None] | None:
    """The dimensions of each in the order in which they lie, None where that is theirs; None where
    it is of all, or torch takes no notice of it.

    Of tensors that don't lie row by row torch's kernels for the CPU make copies that nobody needs.
    """
    if not params or not params[0].is_cpu or all(map(_is_contiguous, params)):
        return None
    return [None if _is_contiguous(one) else _order(one) for one in params]


def _order(tensor: Tensor) -> tuple[int, ...] | None:
    strides = tensor.stride()
    dimensions = sorted(range(tensor.dim()), key=lambda one: -strides[one])
    return tuple(dimensions) if tensor.permute(dimensions).is_contiguous() else None


def in_order(orders: list[tuple[int, ...] | None] | None, *lists: Tensors) -> tuple[Tensors, ...]:
    """Tensors that lie as their parameters do, with their dimensions in these orders."""
    if orders is None:
        return lists
    return tuple(
        [
            one if order is None else one.permute(order)
            for one, order in zip(values, orders, strict=False)  # there may be no velocities
        ]
        for values in lists
    )


def _write_back(originals: Tensors, used: Tensors) -> None:
    if used is originals:
        return
    for original, one in zip(originals, used, strict=True):
        if one is not original:
            original.copy_(one)


def groups_by_rate(rates: Tensors) -> Sequence[tuple[Rate, list[int]]]:
    """(learning rate, positions of its parameters): numbers on the CPU, tensors elsewhere.

    Elsewhere nothing is read from the device, where it would wait for all that is under way.
    """
    if len({*map(id, rates)}) == 1:
        return [(_rate(rates[0]), list(range(len(rates))))]
    groups: defaultdict[float, list[int]] = defaultdict(list)
    read: dict[float, Rate] = {}
    for position, tensor in enumerate(rates):
        rate = _rate(tensor)
        key = rate if isinstance(rate, float) else float(id(tensor))
        read[key] = rate
        groups[key].append(position)
    return [(read[key], positions) for key, positions in groups.items()]


def _rate(tensor: Tensor) -> Rate:
    return tensor.item() if tensor.device.type == "cpu" else tensor.reshape(())


def descend(
    params: Tensors,
    grads: Tensors,
    velocities: Tensors,
    rate: Rate,
    mu: float,
    nesterov: bool,
    decay: float = 0.0,
) -> None:
    """`param -= rate * grad`, or with velocities the momentum update.

    decay: so much of a parameter is added to its gradient before.
    """
    used, slopes = _laid_out_as(params, velocities, grads)
    if used and mu == 0.0:  # torch's kernel takes no velocities then
        lists.mul_(used, mu)
        lists.add_(used, slopes)
        if decay:
            lists.add_(used, params, alpha=decay)
        slopes, decay = used, 0.0
    given = params, slopes, [] if slopes is used else used
    fused.sgd_(
        *in_order(memory_orders(params), *given),
        weight_decay=decay,
        momentum=mu,
        lr=rate,
        dampening=0.0,
        nesterov=nesterov and mu != 0.0,
        maximize=False,
        is_first_step=False,
    )
    _write_back(velocities, used)


def late_counts(params: Tensors) -> Tensors:
    """Counts of steps with which torch's Adam corrects no bias."""
    return [_constant(_LATE, torch.float32, params[0].device)] * len(params)


def adam_step(
    params: Tensors,
    grads: Tensors,
    moments1: Tensors,
    moments2: Tensors,
    rate: Rate,
    betas: tuple[float, float],
    epsilon: float,
    decay: float = 0.0,
) -> None:
    """Adam with `rate` as it is, without bias correction. decay: as of `descend`."""
    used1, used2, slopes = _laid_out_as(params, moments1, moments2, grads)
    fused.adam_(
        *in_order(memory_orders(params), params, slopes, used1, used2),
        [],
        late_counts(params),
        lr=rate,
        beta1=betas[0],
        beta2=betas[1],
        weight_decay=decay,
        eps=epsilon,
        amsgrad=False,
        maximize=False,
    )
    _write_back(moments1, used1)
    _write_back(moments2, used2)


def adagrad_step(
    params: Tensors,
    grads: Tensors,
    moments: Tensors,
    rate: Rate,
    epsilon: float,
    decay: float = 0.0,
) -> None:
    """moment += grad²; param -= rate * grad / (sqrt(moment) + epsilon). On the CPU.

    decay: as of `descend`.
    """
    used, slopes = _laid_out_as(params, moments, grads)
    first = _constant(1.0, torch.float32, params[0].device)
    fused.adagrad_(
        *in_order(memory_orders(params), params, slopes, used),
        [first] * len(params),
        lr=rate,
        lr_decay=0.0,
        weight_decay=decay,
        eps=epsilon,
        maximize=False,
    )
    _write_back(moments, used)


def scale_all(values: Tensors, factor: float) -> None:
    """Multiplies tensors of one element by a factor, in place.

    On the CPU as the velocity of an update by nothing, which costs a sixth of multiplying each.
    """
    if values[0].device.type != "cpu" or factor == 0.0:
        lists.mul_(values, factor)
        return
    zero = _constant(0.0, values[0].dtype, values[0].device)
    nothing = [zero] * len(values)
    fused.sgd_(
        nothing,
        nothing,
        values,
        weight_decay=0.0,
        momentum=factor,
        lr=0.0,
        dampening=0.0,
        nesterov=False,
        maximize=False,
        is_first_step=False,
    )
