"""Measures kept over batches: area under a curve, intersection over union."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.by_loops import are_plain, loops_pay
from refluid.ops.registry import operator
from refluid.ops.required import require_rows

Counts = npt.NDArray[np.int64]

# So many samples are counted by compiled loops from the first call on; up to so many thresholds
# are float32.
_MANY, _MOST = 2**17, 2**23
_OUT_OF_RANGE, _TOO_LARGE = 1, 2  # what the loop gives


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
    area = _by_loop(Predict, Label, (StatPos, StatNeg), num_thresholds, slide_steps)
    if area is not None:
        return area, StatPos, StatNeg
    scores = Predict.detach()[:, -1].cpu().numpy()
    scaled = scores * scores.dtype.type(num_thresholds)
    if len(scaled) and not (scaled.min() > -1 and scaled.max() < num_thresholds + 1):
        raise EnforceNotMet(
            "the last column of Predict has to hold numbers from 0 to 1, but holds some from "
            f"{scores.min():g} to {scores.max():g}: give it what softmax or sigmoid gave"
        )
    require_rows("Label", Label, "Predict", len(Predict))
    place, positive = scaled.astype(np.int64), Label.reshape(-1).cpu().numpy() != 0
    totals = []
    for stat, chosen in ((StatPos, positive), (StatNeg, ~positive)):
        held = stat.view(-1).cpu()
        counts = np.bincount(place[chosen], minlength=num_thresholds + 1)
        totals.append(_slide(held.numpy(), counts, slide_steps))
        if not stat.is_cpu:
            stat.view(-1).copy_(held)
    area = torch.tensor([_area(*totals)], dtype=torch.float64, device=Predict.device)
    return area, StatPos, StatNeg


def _by_loop(
    predict: Tensor, label: Tensor, stats: tuple[Tensor, Tensor], thresholds: int, steps: int
) -> Tensor | None:
    """The area, once a compiled loop has counted the samples; None where NumPy is to."""
    rows, buckets = len(predict), thresholds + 1
    if predict.dim() != 2 or not loops_pay(rows, _MANY) or thresholds > _MOST or steps < 0:
        return None
    if not predict.numel() or label.shape not in ((rows,), (rows, 1)):
        return None
    held = buckets * (steps + 1) + 1 if steps else buckets
    if not are_plain(torch.float32, predict) or not are_plain(torch.int64, label, *stats):
        return None
    if any(one.numel() < held for one in stats):
        return None
    from refluid.kernels.labelling.counts import count_scores  # few programs count so often

    area = torch.empty(1, dtype=torch.float64)
    places = stats[0].data_ptr(), stats[1].data_ptr(), stats[0].numel(), stats[1].numel()
    given = predict.data_ptr(), label.data_ptr()
    size = (*predict.shape, thresholds)
    done = count_scores(given, places, area.data_ptr(), size, steps)
    if done == _OUT_OF_RANGE:
        return None
    if done == _TOO_LARGE:
        first = buckets * steps
        counts = (one.view(-1)[first : first + buckets].numpy() for one in stats)
        area[0] = _area(*counts)
    return area


def _slide(stat: Counts, counts: Counts, steps: int) -> Counts:
    """Puts the counts of a batch into the buckets; the counts of the window."""
    size = len(counts)
    if steps == 0:
        stat[:size] += counts
        return stat[:size]
    slot = int(stat[-1]) % steps
    own, total = stat[slot * size : (slot + 1) * size], stat[steps * size : (steps + 1) * size]
    total += counts - own
    own[:] = counts
    stat[-1] += 1
    return total


def _area(positive: Counts, negative: Counts) -> float:
    """The area, by trapezoids: of two samples in one bucket either may be before the other.

    0 where one class is missing.
    """
    up_to, alarms = positive.cumsum(), negative.astype(np.float64)
    above = up_to[-1] - up_to + positive / 2
    whole = float(up_to[-1]) * alarms.sum()
    return float(alarms @ above / whole) if whole > 0 else 0.0


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
