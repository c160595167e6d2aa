"""Adam, in place; for one parameter and for many at once."""

from __future__ import annotations

import math
from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.selected_rows import SelectedRows
from refluid.kernels import fused
from refluid.kernels.rows.updates import TAKEN, AdamTables, adam_step_rows, takes
from refluid.ops.drafts import RowsStep, SteadyStep, steady, steady_rows
from refluid.ops.optimizer.fused import (
    adam_step,
    groups_by_rate,
    in_order,
    late_counts,
    memory_orders,
    scale_all,
)
from refluid.ops.optimizer.steady import Kept, Powers, Slopes, are_alike, are_numbers
from refluid.ops.registry import many, operator
from refluid.ops.signature import Long
from refluid.ops.sparse.sparse import dense, update_rows

if TYPE_CHECKING:
    from typing_extensions import TypeIs

Tensors = list[Tensor]
# 0.999 as Fluid's attributes hold it; 1 - beta2 shows the difference.
BETA2 = 0.9990000128746033
KEPT = ("Param", "Moment1", "Moment2", "Beta1Pow", "Beta2Pow")


@operator(
    "adam",
    outputs=" ".join(f"{slot}Out" for slot in KEPT),
    uses=None,
    lod="",
    mutates={f"{slot}Out": slot for slot in KEPT},
    decays="l2_decay",
    by_tiles="adam_by_tiles",
)
def adam(
    Param: Tensor,
    Grad: Tensor | SelectedRows,
    LearningRate: Tensor,
    Moment1: Tensor,
    Moment2: Tensor,
    Beta1Pow: Tensor,
    Beta2Pow: Tensor,
    Beta1Tensor: Tensor | None = None,
    Beta2Tensor: Tensor | None = None,
    *,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: Long = 1000,
    l2_decay: float = 0.0,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """moment1 = beta1 * moment1 + (1 - beta1) * grad; moment2 likewise of grad²;

    param -= rate * sqrt(1 - beta2_pow) / (1 - beta1_pow) * moment1 / (sqrt(moment2) + epsilon);
    then beta1_pow *= beta1 and beta2_pow *= beta2. Of a sparse Grad lazy_mode takes its rows
    only; else rows that it lacks move on with their moments. With it the powers are multiplied
    before the step, not after it: so Fluid's recordings have it. l2_decay: as of `sgd`.
    """
    betas = (
        beta1 if Beta1Tensor is None else Beta1Tensor.item(),
        beta2 if Beta2Tensor is None else Beta2Tensor.item(),
    )
    powers = [Beta1Pow], [Beta2Pow]

    def step(grad: Tensor, param: Tensor, moment1: Tensor, moment2: Tensor) -> None:
        moments = [moment1], [moment2]
        step_all([param], [grad], [LearningRate], *moments, *powers, betas, epsilon, decay=l2_decay)

    kept, state = (Param, Moment1, Moment2), (Beta1Pow, Beta2Pow, LearningRate)
    if isinstance(Grad, Tensor) or l2_decay:
        step(dense(Grad), *kept)
        multiply(*powers, betas)
    elif lazy_mode and takes(Grad.index, Grad.value, *kept) and _are_numbers(*state):
        rows = Grad.index, Grad.value
        adam_step_rows(*kept, Beta1Pow, Beta2Pow, *rows, LearningRate, betas, epsilon)
    else:
        multiply(*powers, betas)
        if lazy_mode:
            update_rows(step, Grad, *kept)
        else:
            step(Grad.to_dense(), *kept)
    return *kept, Beta1Pow, Beta2Pow


def _are_numbers(*state: Tensor) -> bool:
    """Whether each is one number that compiled loops take, in an array of its own."""
    return all(one.shape == (1,) and one.is_cpu and one.dtype in TAKEN for one in state)


@many("adam", rows=True)
def adam_many(
    Param: Tensors,
    Grad: Tensors | list[SelectedRows],
    LearningRate: Tensors,
    Moment1: Tensors,
    Moment2: Tensors,
    Beta1Pow: Tensors,
    Beta2Pow: Tensors,
    Beta1Tensor: Tensors,
    Beta2Tensor: Tensors,
    *,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    min_row_size_to_use_multithread: Long = 1000,
    l2_decay: float = 0.0,
) -> None:
    """`adam` of all parameters of one corrected learning rate in one pass over their memory.

    Of tables with rows as gradients in one call, if it takes them all.
    """
    betas = (
        Beta1Tensor[0].item() if Beta1Tensor else beta1,
        Beta2Tensor[0].item() if Beta2Tensor else beta2,
    )
    kept = Moment1, Moment2, Beta1Pow, Beta2Pow
    if are_dense(Grad):
        step_all(Param, Grad, LearningRate, *kept, betas, epsilon, decay=l2_decay)
        multiply(Beta1Pow, Beta2Pow, betas)
        return
    named: dict[str, Any] = {"beta1": betas[0], "beta2": betas[1], "epsilon": epsilon}
    step = steady_tables(dict(zip(KEPT, (Param, *kept), strict=True)), **named, lazy_mode=lazy_mode)
    if step is not None and not l2_decay and step(Grad, LearningRate):
        return
    for param, one, two, *powers, rate, grad in zip(Param, *kept, LearningRate, Grad, strict=True):
        adam(param, grad, rate, one, two, *powers, **named, lazy_mode=lazy_mode, l2_decay=l2_decay)


def are_dense(gradients: Tensors | list[SelectedRows]) -> TypeIs[Tensors]:
    """Whether they are tensors rather than rows: all of a call are, or none."""
    return isinstance(gradients[0], Tensor)


def multiply(powers1: Tensors, powers2: Tensors, betas: tuple[float, float]) -> None:
    """Powers one step on."""
    for powers, beta in zip((powers1, powers2), betas, strict=True):
        if len(powers) == 1:
            powers[0].mul_(beta)
        else:
            scale_all(powers, beta)


def _groups_by_corrected_rate(
    rates: Tensors, powers1: Tensors, powers2: Tensors, epsilon: float, corrects: bool
) -> dict[tuple[float, float], list[int]]:
    """(rate corrected for bias, epsilon for the moment as it is), positions of its parameters."""
    count, by_rate = len(powers1), groups_by_rate(rates)
    powers = torch.cat([*powers1, *powers2]).tolist()
    firsts, seconds = powers[:count], powers[count:]
    first, second = firsts[0], seconds[0]
    if len(by_rate) == 1 and firsts.count(first) == count == seconds.count(second):
        ((rate, positions),) = by_rate
        small = epsilon_of(epsilon, second) if corrects else epsilon
        return {(corrected(rate, first, second), small): positions}
    groups: defaultdict[tuple[float, float], list[int]] = defaultdict(list)
    for rate, positions in by_rate:
        for i in positions:
            small = epsilon_of(epsilon, seconds[i]) if corrects else epsilon
            groups[corrected(rate, firsts[i], seconds[i]), small].append(i)
    return groups


def corrected(rate: float, power1: float, power2: float) -> float:
    """The learning rate with the corrections for bias in it."""
    return rate * math.sqrt(1.0 - power2) / (1.0 - power1)


def epsilon_of(epsilon: float, power2: float) -> float:
    """What added to the root of a moment is `epsilon` added to that of the corrected one."""
    return epsilon * math.sqrt(1.0 - power2)


def step_all(
    params: Tensors,
    grads: Tensors,
    rates: Tensors,
    moments1: Tensors,
    moments2: Tensors,
    powers1: Tensors,
    powers2: Tensors,
    betas: tuple[float, float],
    epsilon: float,
    corrects: bool = False,
    decay: float = 0.0,
) -> None:
    """Moments and parameters one step on, by the powers as they are.

    corrects: epsilon is added to the root of the corrected moment, for which powers are read.
    decay: as of `descend`.
    """
    if corrects or params[0].device.type == "cpu":
        groups = _groups_by_corrected_rate(rates, powers1, powers2, epsilon, corrects)
        if len(groups) == 1:
            ((rate, small),) = groups
            adam_step(params, grads, moments1, moments2, rate, betas, small, decay)
            return
        for (rate, small), group in groups.items():
            chosen, slopes = [params[i] for i in group], [grads[i] for i in group]
            kept = [moments1[i] for i in group], [moments2[i] for i in group]
            adam_step(chosen, slopes, *kept, rate, betas, small, decay)
        return
    corrections = torch.cat(rates) * (1.0 - torch.cat(powers2)).sqrt_()
    corrections /= 1.0 - torch.cat(powers1)
    for i, each in enumerate(corrections.unbind()):
        kept = [moments1[i]], [moments2[i]]
        adam_step([params[i]], [grads[i]], *kept, each, betas, epsilon, decay)


def steady_step(
    kept: Kept,
    *,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    corrects: bool = False,
    l2_decay: float = 0.0,
    **_rows: Any,
) -> SteadyStep | None:
    """What makes `step_all` of these tensors with other gradients and rates."""
    params, moments = kept["Param"], (kept["Moment1"], kept["Moment2"])
    numbers = kept["Beta1Pow"], kept["Beta2Pow"]
    betas_change = kept.get("Beta1Tensor") or kept.get("Beta2Tensor")
    if betas_change or not (are_alike(params, *moments) and are_numbers(*numbers[0], *numbers[1])):
        return None
    slopes, first, second = Slopes(params), Powers(numbers[0], beta1), Powers(numbers[1], beta2)
    others = {"weight_decay": l2_decay, "amsgrad": False, "maximize": False}
    move = partial(fused.adam_, beta1=beta1, beta2=beta2, **others)
    counts, orders = late_counts(params), memory_orders(params)

    def step(grads: Tensors, rate: float) -> None:
        one, two = first.common(), second.common()
        if one is None or two is None:
            rates = [torch.tensor([rate], dtype=torch.float64)] * len(params)
            states, betas = (*moments, *numbers), (beta1, beta2)
            step_all(params, grads, rates, *states, betas, epsilon, corrects, l2_decay)
            multiply(*numbers, (beta1, beta2))
            return
        small = epsilon_of(epsilon, two) if corrects else epsilon
        lists = in_order(orders, params, slopes.laid_out(grads), *moments)
        move(*lists, [], counts, lr=corrected(rate, one, two), eps=small)
        first.multiply(one)
        second.multiply(two)

    return step


steady("adam")(steady_step)


@steady_rows("adam")
def steady_tables(
    kept: Kept,
    *,
    beta1: float = 0.9,
    beta2: float = BETA2,
    epsilon: float = 1e-8,
    lazy_mode: bool = False,
    **_threads: Any,
) -> RowsStep | None:
    """What makes lazy steps of these tables with other gradients and rates, all in one call."""
    together = lazy_mode and flags.value("refluid_rows_together")
    if not together or kept.get("Beta1Tensor") or kept.get("Beta2Tensor"):
        return None
    tables = AdamTables(*(kept[slot] for slot in KEPT))

    def step(grads: list[SelectedRows], rates: Tensors) -> bool:
        rows, values = [one.index for one in grads], [one.value for one in grads]
        return tables.step(rows, values, rates, (beta1, beta2), epsilon)

    return step if tables.taken else None
