"""Measures kept over batches: area under a curve, intersection over union."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.registry import operator
from refluid.ops.required import require_rows


@operator(
    "auc",
    outputs="AUC StatPosOut StatNegOut",
    uses=None,
    lod="",
    mutates={"StatPosOut": "StatPos", "StatNegOut": "StatNeg"},
)
def auc(
    Predict: Tensor,
    Label: Tensor,
    StatPos: Tensor,
    StatNeg: Tensor,
    *,
    curve: str = "ROC",
    num_thresholds: int = 8191,
    slide_steps: int = 1,
) -> tuple[Tensor, Tensor, Tensor]:
    """Area under the ROC curve of the last column of Predict (rows, classes), float64 (1,).

    StatPos and StatNeg (int64) count samples by their prediction, in num_thresholds + 1 buckets.
    slide_steps 0 counts all batches. Else the buckets of the last `slide_steps` batches come
    first, then their sum, then the number of batches. As in Fluid, `curve` has no effect.
    """
    if Predict.is_meta:
        return Predict.new_empty(1, dtype=torch.float64), StatPos, StatNeg
    place = (Predict[:, -1] * num_thresholds).long()
    first, last = map(int, place.aminmax()) if place.numel() else (0, 0)
    if first < 0 or last > num_thresholds:
        low, high = Predict[:, -1].aminmax()
        raise EnforceNotMet(
            "the last column of Predict has to hold numbers from 0 to 1, but holds some from "
            f"{low:g} to {high:g}: give it what softmax or sigmoid gave"
        )
    require_rows("Label", Label, "Predict", len(Predict))
    positive = Label.reshape(-1) != 0
    totals = []
    for stat, chosen in ((StatPos, positive), (StatNeg, ~positive)):
        counts = torch.bincount(place[chosen], minlength=num_thresholds + 1)
        totals.append(_slide(stat.view(-1), counts, slide_steps))
    return _area(totals[0].double(), totals[1].double()), StatPos, StatNeg


def _slide(stat: Tensor, counts: Tensor, steps: int) -> Tensor:
    """Puts the counts of a batch into the buckets; the counts of the window."""
    if steps == 0:
        return stat[: counts.numel()].add_(counts)
    size = counts.numel()
    slot = int(stat[-1]) % steps
    own, total = stat[slot * size : (slot + 1) * size], stat[steps * size : (steps + 1) * size]
    total += counts - own
    own.copy_(counts)
    stat[-1] += 1
    return total


def _area(positive: Tensor, negative: Tensor) -> Tensor:
    """The area, going from the highest threshold down; 0 where one class is missing."""
    hits, alarms = positive.flip(0).cumsum(0), negative.flip(0).cumsum(0)
    start = torch.zeros_like(hits[:1])
    area = torch.trapezoid(torch.cat((start, hits)), torch.cat((start, alarms)))
    whole = hits[-1] * alarms[-1]
    return torch.where(whole > 0, area / whole, torch.zeros_like(area)).reshape(1)


@operator("mean_iou", outputs="OutMeanIou OutWrong OutCorrect", uses=None, lod="")
def mean_iou(
    Predictions: Tensor,
    Labels: Tensor,
    InWrongs: list[Tensor] | None = None,
    InCorrects: list[Tensor] | None = None,
    InMeanIou: list[Tensor] | None = None,
    *,
    num_classes: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Mean over the classes seen of correct / (correct + wrong), float32 (1,); int32 counts.

    A wrong prediction counts as wrong for the class predicted and for the label.
    """
    if Predictions.is_meta:
        counts = Predictions.new_empty(num_classes, dtype=torch.int32)
        return Predictions.new_empty(1, dtype=torch.float32), counts, counts
    predicted, label = Predictions.reshape(-1).long(), Labels.reshape(-1).long()
    hit = predicted == label
    correct = torch.bincount(label[hit], minlength=num_classes).int()
    wrong = torch.bincount(label[~hit], minlength=num_classes).int()
    wrong += torch.bincount(predicted[~hit], minlength=num_classes).int()
    for one in InWrongs or []:
        wrong += one
    for one in InCorrects or []:
        correct += one
    seen = correct + wrong
    ratio = correct.float() / seen.clamp(min=1)
    average = ratio.sum() / (seen > 0).sum()
    for one in InMeanIou or []:
        average = average + one
    return average.reshape(1), wrong, correct
