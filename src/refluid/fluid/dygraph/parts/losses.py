"""Losses as layers."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.fluid.dygraph.layers import Layer
from refluid.fluid.dygraph.parts.former import channels, scoped
from refluid.fluid.functions.loss.sampled import (
    check_sampler,
    distribution_tables,
    nce_attributes,
    over_samples,
)
from refluid.ir.variable import Variable

_REDUCED = {"mean": "reduce_mean", "sum": "reduce_sum"}


def _reduced(loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    return op(_REDUCED[reduction], {"X": loss}, {"dim": [0], "keep_dim": False, "reduce_all": True})


def _checked(name: str, reduction: str) -> str:
    if reduction not in ("sum", "mean", "none"):
        raise ValueError(
            f"The value of 'reduction' in {name} should be 'sum', 'mean' or 'none', but "
            f"received {reduction}, which is not allowed."
        )
    return reduction


class L1Loss(Layer):
    """|input - label|, its mean or sum."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _checked("L1Loss", reduction)

    def forward(self, input: Variable, label: Variable) -> Any:
        """The loss, (1,) unless the reduction is none."""
        apart = op("elementwise_sub", {"X": input, "Y": label}, {"axis": -1})
        return _reduced(op("abs", {"X": apart}), self.reduction)


class MSELoss(Layer):
    """(input - label)², its mean or sum."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = _checked("MSELoss", reduction)

    def forward(self, input: Variable, label: Variable) -> Any:
        """The loss, (1,) unless the reduction is none."""
        apart = op("elementwise_sub", {"X": input, "Y": label}, {"axis": -1})
        return _reduced(op("square", {"X": apart}), self.reduction)


class BCELoss(Layer):
    """Cross entropy of probabilities and labels of 0 and 1, its mean or sum.

    weight: of each element, as a variable.
    """

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__()
        self.weight = weight
        self.reduction = _checked("bce_loss", reduction)

    def forward(self, input: Variable, label: Variable) -> Any:
        """The loss, (1,) unless the reduction is none."""
        out = op("bce_loss", {"X": [input], "Label": [label]})
        if self.weight is not None:
            out = op("elementwise_mul", {"X": out, "Y": self.weight}, {"axis": -1})
        return _reduced(out, self.reduction)


class NLLLoss(Layer):
    """Negative log likelihood of labels, from log probabilities (N, C) or (N, C, H, W).

    weight: of each class, as a variable. ignore_index: a label that counts nothing.
    """

    def __init__(
        self, weight: Any = None, reduction: str = "mean", ignore_index: int = -100
    ) -> None:
        super().__init__()
        self._weight = weight
        self._options = {
            "reduction": _checked("nll_loss", reduction),
            "ignore_index": ignore_index,
        }

    def forward(self, input: Variable, label: Variable) -> Any:
        """The loss, (1,) unless the reduction is none."""
        slots = {"X": input, "Label": label, "Weight": self._weight}
        return op("nll_loss", slots, self._options, ("Out", "Total_weight"))[0]


@scoped(
    "num_total_classes param_attr bias_attr num_neg_samples sampler custom_dist seed is_sparse",
    dim=channels,
)
class NCE(Layer):
    """Noise-contrastive estimation, as `fluid.layers.nce`: (N, dim) and (N, 1) give (N, 1)."""

    def __init__(
        self,
        num_total_classes: int,
        dim: int,
        sample_weight: Any = None,
        param_attr: Any = None,
        bias_attr: Any = None,
        num_neg_samples: int | None = None,
        sampler: str = "uniform",
        custom_dist: Any = None,
        seed: int = 0,
        is_sparse: bool = False,
        dtype: Any = "float32",
    ) -> None:
        check_sampler(sampler, custom_dist)
        super().__init__(dtype=dtype)
        self._options = nce_attributes(num_total_classes, num_neg_samples, sampler, seed, is_sparse)
        drawn = sampler == "custom_dist"
        self._tables = distribution_tables(self._helper, custom_dist) if drawn else {}
        self._sample_weight = sample_weight
        self.weight = self.create_parameter([num_total_classes, dim], param_attr, dtype)
        self.bias = self.create_parameter([num_total_classes, 1], bias_attr, dtype, is_bias=True)

    def forward(
        self, input: Variable, label: Variable, sample_weight: Variable | None = None
    ) -> Any:
        """The cost of each row."""
        slots = {"Input": input, "Label": label, "Weight": self.weight, "Bias": self.bias}
        given = self._sample_weight if sample_weight is None else sample_weight
        slots |= {"SampleWeight": given} | self._tables
        makes = {"Cost": None, "SampleLogits": None, "SampleLabels": label.dtype}
        return over_samples(op("nce", slots, self._options, makes)[0], self._options)
