"""`paddle.metric`: how good guesses are, over batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.metric.accuracy import accuracy as fluid_accuracy
from refluid.ir.variable import Variable
from refluid.paddle.tensor.making import cast_to, rank_of
from refluid.paddle.tensor.search import argsort

__all__ = ["Accuracy", "Auc", "Metric", "Precision", "Recall", "accuracy"]


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """The share of samples whose label is among the `k` greatest of `input`, shape (1,).

    input: (N, classes); label: int64 (N, 1). correct, total: int32 variables that get the counts.
    """
    if label.dtype == VarType.INT32:
        label = cast_to(label, VarType.INT64)
    return fluid_accuracy(input, label, k, correct, total)


def _array(value: Any) -> Any:
    return value.numpy() if isinstance(value, Variable) else np.asarray(value)


class Metric:
    """Base of metrics: `compute` may run in a program, `update` takes what it gave as arrays."""

    def reset(self) -> None:
        """Forgets all batches."""
        raise NotImplementedError(f"function 'reset' not implemented in {type(self).__name__}.")

    def update(self, *args: Any) -> Any:
        """Takes a batch."""
        raise NotImplementedError(f"function 'update' not implemented in {type(self).__name__}.")

    def accumulate(self) -> Any:
        """The value over all batches."""
        raise NotImplementedError(
            f"function 'accumulate' not implemented in {type(self).__name__}."
        )

    def name(self) -> Any:
        """Its name, or names."""
        raise NotImplementedError(f"function 'name' not implemented in {type(self).__name__}.")

    def compute(self, *args: Any) -> Any:
        """What `update` takes; what it is given unless a metric says otherwise."""
        return args


class Accuracy(Metric):
    """The share of samples whose label is among the greatest; one for each of `topk`."""

    def __init__(
        self, topk: Any = (1,), name: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        self.topk = [topk] if isinstance(topk, int) else list(topk)
        self.maxk = max(self.topk)
        given = name or "acc"
        several = [f"{given}_top{k}" for k in self.topk]
        self._names = [given] if self.maxk == 1 else several
        self.reset()

    def compute(self, pred: Variable, label: Variable, *args: Any) -> Variable:
        """1 where the i-th greatest is the label, (N, topk)."""
        order = argsort(pred, -1, True)
        bounds = {"axes": [rank_of(pred) - 1], "starts": [0], "ends": [self.maxk]}
        top = op("slice", {"Input": order}, bounds)
        if rank_of(label) == 1 or (rank_of(label) == 2 and label.shape[-1] == 1):
            label = op("reshape2", {"X": label}, {"shape": [-1, 1]})
        elif label.shape[-1] != 1:
            kinds = {"axis": -1, "keepdims": True}
            label = op("arg_max", {"X": label}, kinds, dtype=VarType.INT64)
        label = cast_to(label, top.dtype)
        return cast_to(op("equal", {"X": top, "Y": label}, dtype=VarType.BOOL), VarType.FP32)

    def update(self, correct: Any, *args: Any) -> Any:
        """Takes what `compute` gave; the accuracy of this batch."""
        given = _array(correct)
        samples = int(np.prod(given.shape[:-1]))
        found = []
        for number, k in enumerate(self.topk):
            right = given[..., :k].sum()
            found.append(float(right) / samples)
            self.total[number] += right
            self.count[number] += samples
        return found[0] if len(self.topk) == 1 else found

    def reset(self) -> None:
        self.total, self.count = [0.0] * len(self.topk), [0] * len(self.topk)

    def accumulate(self) -> Any:
        pairs = zip(self.total, self.count, strict=True)
        found = [float(total) / count if count > 0 else 0.0 for total, count in pairs]
        return found[0] if len(self.topk) == 1 else found

    def name(self) -> list[str]:
        return self._names


class Precision(Metric):
    """The share of those guessed to be 1 that are."""

    _kept = "fp"

    def __init__(self, name: str = "precision", *args: Any, **kwargs: Any) -> None:
        self._name = name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        guesses = np.floor(_array(preds) + 0.5).astype("int32").reshape(-1)
        truths = _array(labels).reshape(-1)
        self.tp += int(((guesses == 1) & (truths == 1)).sum())
        self.fp += int(((guesses == 1) & (truths != 1)).sum())
        self.fn += int(((guesses != 1) & (truths == 1)).sum())

    def reset(self) -> None:
        self.tp = self.fp = self.fn = 0

    def accumulate(self) -> float:
        of = self.tp + (self.fp if self._kept == "fp" else self.fn)
        return self.tp / of if of else 0.0

    def name(self) -> str:
        return self._name


class Recall(Precision):
    """The share of those that are 1 that were guessed to be."""

    _kept = "fn"

    def __init__(self, name: str = "recall", *args: Any, **kwargs: Any) -> None:
        super().__init__(name)


class Auc(Metric):
    """The area under the ROC curve, of scores counted in `num_thresholds` parts."""

    def __init__(
        self,
        curve: str = "ROC",
        num_thresholds: int = 4095,
        name: str = "auc",
        *args: Any,
        **kwargs: Any,
    ) -> None:
        self._curve, self._num_thresholds, self._name = curve, num_thresholds, name
        self.reset()

    def update(self, preds: Any, labels: Any) -> None:
        scores = _array(preds)[:, 1] if _array(preds).ndim > 1 else _array(preds)
        places = (scores * self._num_thresholds).astype("int64")
        truths = _array(labels).reshape(-1).astype(bool)
        width = self._num_thresholds + 1
        self._positive += np.bincount(places[truths], minlength=width)
        self._negative += np.bincount(places[~truths], minlength=width)

    def reset(self) -> None:
        self._positive = np.zeros(self._num_thresholds + 1)
        self._negative = np.zeros(self._num_thresholds + 1)

    def accumulate(self) -> float:
        positive, negative = self._positive[::-1].cumsum(), self._negative[::-1].cumsum()
        if positive[-1] == 0 or negative[-1] == 0:
            return 0.0
        widths = np.diff(negative, prepend=0.0)
        heights = (positive + np.concatenate([[0.0], positive[:-1]])) / 2
        return float((widths * heights).sum() / (positive[-1] * negative[-1]))

    def name(self) -> str:
        return self._name
