"""What Paddle 2 gives other arguments than Fluid while a program is built."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from refluid.fluid import backward
from refluid.fluid.contrib.layers import ctr_metric_bundle as sums_of_clicks
from refluid.fluid.data import data as fluid_data
from refluid.fluid.functions.io import printing
from refluid.fluid.functions.metric import accuracy as metrics
from refluid.ir.variable import Parameter, Variable
from refluid.paddle.framework.dtypes import usual
from refluid.paddle.tensor import methods

methods.provide()


def data(name: str, shape: Sequence[int | None], dtype: Any = None, lod_level: int = 0) -> Variable:
    """A variable that each run is fed; None or -1 in `shape` is a size that may vary.

    dtype: the default one where None. lod_level: levels of sequences in the data.
    """
    return fluid_data(name, shape, usual(dtype), lod_level)


def append_backward(
    loss: Variable,
    parameter_list: Sequence[Parameter | str] | None = None,
    no_grad_set: Iterable[Variable | str] | None = None,
    callbacks: Sequence[Callable[..., Any]] | None = None,
    checkpoints: Sequence[Variable | str] | None = None,
    distop_context: Any = None,
) -> list[Any]:
    """Appends gradients of `loss`; (parameter, gradient) pairs. As `fluid.backward`'s.

    distop_context: of automatic parallelism, which refluid doesn't have: NotImplementedError.
    """
    if distop_context is not None:
        raise NotImplementedError("refluid has no automatic parallelism: distop_context is None")
    return backward.append_backward(loss, parameter_list, no_grad_set, callbacks, checkpoints)


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of samples whose label is among the `k` greatest of `input`, shape (1,)."""
    return metrics.accuracy(input, label, k, correct, total)


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
    ins_tag_weight: Any = None,
) -> tuple[Variable, Variable, list[Variable]]:
    """Area under the curve, as `fluid.layers.auc`. ins_tag_weight: NotImplementedError."""
    if ins_tag_weight is not None:
        raise NotImplementedError("refluid's auc counts all samples alike: ins_tag_weight is None")
    return metrics.auc(input, label, curve, num_thresholds, topk, slide_steps)


def ctr_metric_bundle(
    input: Variable, label: Variable, ins_tag_weight: Any = None
) -> tuple[Variable, ...]:
    """Sums for the metrics of clicks, as Fluid's. ins_tag_weight: NotImplementedError."""
    if ins_tag_weight is not None:
        raise NotImplementedError(
            "refluid's ctr_metric_bundle counts all samples alike: ins_tag_weight is None"
        )
    return sums_of_clicks(input, label)


def Print(
    input: Variable,
    first_n: int = -1,
    message: str | None = None,
    summarize: int = 20,
    print_tensor_name: bool = True,
    print_tensor_type: bool = True,
    print_tensor_shape: bool = True,
    print_tensor_layout: bool = True,
    print_tensor_lod: bool = True,
    print_phase: str = "both",
) -> Variable:
    """Prints a variable whenever it is computed, as `fluid.layers.Print`.

    print_tensor_layout: changes nothing: the layout, which is always NCHW, is printed.
    """
    return printing.Print(
        input,
        first_n,
        message,
        summarize,
        print_tensor_name,
        print_tensor_type,
        print_tensor_shape,
        print_tensor_lod,
        print_phase,
    )
