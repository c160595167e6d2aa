"""Metrics over many batches, computed in Python from fetched arrays (but `DetectionMAP`)."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from refluid.core import names
from refluid.core.fetched import fetched
from refluid.fluid.functions.detection.map_metric import DetectionMAP

__all__ = [
    "Accuracy",
    "Auc",
    "ChunkEvaluator",
    "CompositeMetric",
    "DetectionMAP",
    "EditDistance",
    "MetricBase",
    "Precision",
    "Recall",
]

Array = np.ndarray[Any, Any]


def _is_numpy(value: Any) -> bool:
    return isinstance(value, np.ndarray | np.generic)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float | np.number) or (_is_numpy(value) and value.size == 1)


def _require_arrays(**given: Any) -> None:
    for name, value in given.items():
        if not _is_numpy(value):
            raise ValueError(f"The '{name}' must be a numpy ndarray.")


class MetricBase:
    """Base of metrics: `update` with each batch, `eval` for the value, `reset` between passes.

    Attributes that don't start with `_` are the state that `reset` brings back to zero.
    """

    def __init__(self, name: str | None) -> None:
        self._name = name or names.generate(type(self).__name__)

    def __str__(self) -> str:
        return self._name

    def _state(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if not key.startswith("_")}

    def reset(self) -> None:
        """Back to the state before any update."""
        for name, value in self._state().items():
            if isinstance(value, np.ndarray):
                setattr(self, name, np.zeros_like(value))
            elif isinstance(value, int | float | np.number):
                setattr(self, name, type(value)(0))
            else:
                setattr(self, name, None)

    def get_config(self) -> dict[str, Any]:
        """Name and state."""
        return {"name": self._name, "states": copy.deepcopy(self._state())}

    def update(self, preds: Any, labels: Any) -> None:
        """Counts one batch."""
        raise NotImplementedError(f"{type(self).__name__} must define update")

    def eval(self) -> Any:
        """The value over all batches since the last reset."""
        raise NotImplementedError(f"{type(self).__name__} must define eval")


class CompositeMetric(MetricBase):
    """Several metrics fed with the same predictions and labels."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self._metrics: list[MetricBase] = []

    def add_metric(self, metric: MetricBase) -> None:
        """Adds a metric. ValueError for anything else."""
        if not isinstance(metric, MetricBase):
            raise ValueError("SubMetric should be inherit from MetricBase.")
        self._metrics.append(metric)

    def reset(self) -> None:
        """Resets each metric."""
        for metric in self._metrics:
            metric.reset()

    def update(self, preds: Any, labels: Any) -> None:
        """Updates each metric."""
        for metric in self._metrics:
            metric.update(preds, labels)

    def eval(self) -> list[Any]:
        """The value of each metric."""
        return [metric.eval() for metric in self._metrics]


class _Binary(MetricBase):
    """Counts of true positives and of one kind of error, from scores and 0/1 labels."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.tp = 0

    def _count(self, preds: Any, labels: Any, wrong: tuple[int, int]) -> int:
        """Adds the true positives; how often (prediction, label) was `wrong`."""
        _require_arrays(preds=preds, labels=labels)
        predicted = np.rint(preds).astype("int32").reshape(-1)
        wanted = np.asarray(labels).reshape(-1)
        if predicted.shape != wanted.shape:
            raise ValueError(
                f"{type(self).__name__}.update: preds has shape {list(np.shape(preds))} and labels "
                f"{list(np.shape(labels))}; it needs the score of class 1 for each label"
            )
        self.tp += int(np.sum((predicted == 1) & (wanted == 1)))
        return int(np.sum((predicted == wrong[0]) & (wanted == wrong[1])))


class Precision(_Binary):
    """Share of true positives among what was predicted as positive (scores above 0.5)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.fp = 0

    def update(self, preds: Any, labels: Any) -> None:
        """preds: scores (N, 1); labels: 0 or 1 of the same shape. ValueError for no arrays."""
        self.fp += self._count(preds, labels, (1, 0))

    def eval(self) -> float:
        """Precision; 0 where nothing was predicted as positive."""
        found = self.tp + self.fp
        return float(self.tp) / found if found else 0.0


class Recall(_Binary):
    """Share of the positives that were predicted as such (scores above 0.5)."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.fn = 0

    def update(self, preds: Any, labels: Any) -> None:
        """preds: scores (N, 1); labels: 0 or 1 of the same shape. ValueError for no arrays."""
        self.fn += self._count(preds, labels, (0, 1))

    def eval(self) -> float:
        """Recall; 0 where there was no positive."""
        there = self.tp + self.fn
        return float(self.tp) / there if there else 0.0


class Accuracy(MetricBase):
    """The mean of batch accuracies (`fluid.layers.accuracy`), weighted by batch size."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.value = 0.0
        self.weight = 0.0

    def update(self, value: Any, weight: Any) -> None:
        """value: accuracy of a batch; weight: its size. ValueError for a negative weight."""
        if not _is_number(value) and not _is_numpy(value):
            raise ValueError("The 'value' must be a number(int, float) or a numpy ndarray.")
        if not _is_number(weight):
            raise ValueError("The 'weight' must be a number(int, float).")
        if weight < 0:
            raise ValueError("The 'weight' can not be negative")
        self.value += value * weight
        self.weight += weight

    def eval(self) -> Any:
        """The mean. ValueError before any update."""
        if self.weight == 0:
            raise ValueError(
                "There is no data in Accuracy Metrics. Please check layers.accuracy output has "
                "added to Accuracy."
            )
        return fetched(self.value / self.weight)


class ChunkEvaluator(MetricBase):
    """Precision, recall and F1 from the counts that `chunk_eval` gives."""

    def __init__(self, name: str | None = None) -> None:
        super().__init__(name)
        self.num_infer_chunks = 0
        self.num_label_chunks = 0
        self.num_correct_chunks = 0

    def update(  # type: ignore[override]
        self, num_infer_chunks: Any, num_label_chunks: Any, num_correct_chunks: Any
    ) -> None:
        """Adds the counts of one batch. ValueError for counts that are no numbers."""
        given = vars().copy()
        del given["self"]
        for name, value in given.items():
            if not _is_number(value):
                raise ValueError(f"The '{name}' must be a number(int) or a numpy ndarray.")
            setattr(self, name, getattr(self, name) + int(np.asarray(value).item()))

    def eval(self) -> tuple[float, float, float]:
        """(precision, recall, F1), 0 where undefined."""
        correct = self.num_correct_chunks
        precision = correct / self.num_infer_chunks if self.num_infer_chunks else 0.0
        recall = correct / self.num_label_chunks if self.num_label_chunks else 0.0
        f1 = 2 * precision * recall / (precision + recall) if correct else 0.0
        return precision, recall, f1


class EditDistance(MetricBase):
    """The mean distance between sequences, and the share of sequences that differ at all."""

    def __init__(self, name: str | None) -> None:
        super().__init__(name)
        self.total_distance = 0.0
        self.seq_num = 0
        self.instance_error = 0

    def update(self, distances: Any, seq_num: Any) -> None:
        """distances: (N, 1); seq_num: N. ValueError for distances that are no array."""
        _require_arrays(distances=distances)
        if not _is_number(seq_num):
            raise ValueError("The 'seq_num' must be a number(int, float) or a numpy ndarray.")
        count = int(np.asarray(seq_num).item())
        self.seq_num += count
        self.instance_error += count - int(np.sum(distances == 0))
        self.total_distance += float(np.sum(distances))

    def eval(self) -> tuple[float, float]:
        """(mean distance, share of wrong sequences). ValueError before any update."""
        if self.seq_num == 0:
            raise ValueError(
                "There is no data in EditDistance Metric. Please check layers.edit_distance "
                "output has been added to EditDistance."
            )
        return self.total_distance / self.seq_num, self.instance_error / float(self.seq_num)


class Auc(MetricBase):
    """Area under the ROC curve, from counts of scores in `num_thresholds` + 1 bins."""

    def __init__(self, name: str | None, curve: str = "ROC", num_thresholds: int = 4095) -> None:
        super().__init__(name)
        self._curve = curve
        self._num_thresholds = num_thresholds
        self._reset_bins()

    def _reset_bins(self) -> None:
        self._stat_pos = np.zeros(self._num_thresholds + 1)
        self._stat_neg = np.zeros(self._num_thresholds + 1)

    def reset(self) -> None:
        """Forgets all scores."""
        self._reset_bins()

    def update(self, preds: Any, labels: Any) -> None:
        """preds: (N, 2), the second column is the score; labels: 0 or 1, (N, 1).

        ValueError for no arrays, IndexError for other shapes and scores that aren't of [0, 1].
        """
        _require_arrays(labels=labels, predictions=preds)
        shape, most = list(np.shape(preds)), self._num_thresholds
        if len(shape) != 2 or shape[1] < 2 or shape[0] != np.size(labels):
            raise IndexError(
                f"Auc.update: preds has shape {shape} for {np.size(labels)} labels; it needs (N, "
                "2), the probabilities of both classes: numpy.stack([1 - p, p], 1) of scores p"
            )
        scaled = np.asarray(preds)[:, 1] * most
        if not ((scaled > -1) & (scaled < most + 1)).all():
            raise IndexError("Auc.update: the second column of preds has to be from 0 to 1")
        bins = scaled.astype(int)
        positive = np.asarray(labels).reshape(-1).astype(bool)
        size = self._num_thresholds + 1
        self._stat_pos += np.bincount(bins[positive], minlength=size)
        self._stat_neg += np.bincount(bins[~positive], minlength=size)

    @staticmethod
    def trapezoid_area(x1: float, x2: float, y1: float, y2: float) -> float:
        """Area under the line from (x1, y1) to (x2, y2)."""
        return abs(x1 - x2) * (y1 + y2) / 2.0

    def eval(self) -> float:
        """The area; 0 where one of the two classes never occurred."""
        above_pos = np.concatenate([[0.0], np.cumsum(self._stat_pos[::-1])])
        above_neg = np.concatenate([[0.0], np.cumsum(self._stat_neg[::-1])])
        area = np.sum(np.diff(above_neg) * (above_pos[1:] + above_pos[:-1]) / 2.0)
        total = above_pos[-1] * above_neg[-1]
        return float(area / total) if above_pos[-1] > 0 and above_neg[-1] > 0 else 0.0
