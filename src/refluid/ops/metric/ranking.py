"""Measures of ranked and of classified samples: ordered pairs, precision and recall."""

from __future__ import annotations

import torch
from torch import Tensor

from refluid.ops.registry import operator


@operator(
    "positive_negative_pair",
    outputs="PositivePair NegativePair NeutralPair?",
    uses=None,
    lod="",
    amp="keep",
)
def positive_negative_pair(
    Score: Tensor,
    Label: Tensor,
    QueryID: Tensor,
    AccumulatePositivePair: Tensor | None = None,
    AccumulateNegativePair: Tensor | None = None,
    AccumulateNeutralPair: Tensor | None = None,
    Weight: Tensor | None = None,
    *,
    column: int = 0,
) -> tuple[Tensor, ...]:
    """Pairs of one query with different labels that the scores order rightly, wrongly, or not.

    Score: (N, depth), of which `column` ranks; Label, QueryID, Weight: (N, 1). A pair counts the
    mean of its weights, 1 without. Results are (1,), added to what was accumulated.
    """
    score, label, query = Score[:, column], Label.reshape(-1), QueryID.reshape(-1)
    weight = torch.ones_like(score) if Weight is None else Weight.reshape(-1).to(score.dtype)
    better = label.unsqueeze(1) > label.unsqueeze(0)
    pairs = better & (query.unsqueeze(1) == query.unsqueeze(0))
    shares = 0.5 * (weight.unsqueeze(1) + weight.unsqueeze(0)) * pairs
    gap = score.unsqueeze(1) - score.unsqueeze(0)
    former = (AccumulatePositivePair, AccumulateNegativePair, AccumulateNeutralPair)
    found = [(shares * chosen).sum().reshape(1) for chosen in (gap > 0, gap < 0, gap == 0)]
    return tuple(
        one if old is None else one + old.reshape(1) for one, old in zip(found, former, strict=True)
    )


def _ratio(part: Tensor, rest: Tensor, empty: float) -> Tensor:
    whole = part + rest
    return torch.where(whole > 0, part / whole.clamp(min=1e-12), empty)


def _f1(precision: Tensor, recall: Tensor) -> Tensor:
    whole = precision + recall
    return torch.where(whole > 0, 2.0 * precision * recall / whole.clamp(min=1e-12), 0.0)


def _metrics(states: Tensor) -> Tensor:
    """Macro and micro precision, recall and F1 of states (classes, 4): TP, FP, TN, FN."""
    hit, false_alarm, _, missed = states.unbind(1)
    precision, recall = _ratio(hit, false_alarm, 1.0).mean(), _ratio(hit, missed, 1.0).mean()
    all_hits, all_alarms, _, all_missed = states.sum(0)
    overall = _ratio(all_hits, all_alarms, 1.0), _ratio(all_hits, all_missed, 1.0)
    parts = (precision, recall, _f1(precision, recall), *overall, _f1(*overall))
    return torch.stack(parts)


@operator(
    "precision_recall",
    outputs="BatchMetrics AccumMetrics AccumStatesInfo",
    uses=None,
    lod="",
    amp="keep",
)
def precision_recall(
    MaxProbs: Tensor,
    Indices: Tensor,
    Labels: Tensor,
    Weights: Tensor | None = None,
    StatesInfo: Tensor | None = None,
    *,
    class_number: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Macro precision, recall, F1, and micro ones, of this batch and of all; (6,) each.

    Indices (predicted class), Labels, Weights: (N, 1). The states, (class_number, 4), hold TP,
    FP, TN and FN of each class and are added to StatesInfo. A class without cases counts 1.
    """
    kind = MaxProbs.dtype
    if MaxProbs.is_meta:
        made = MaxProbs.new_empty(6), MaxProbs.new_empty(6), MaxProbs.new_empty(class_number, 4)
        return made[0].float(), made[1].float(), made[2].float()
    classes = torch.arange(class_number, device=Indices.device)
    chosen = Indices.reshape(-1, 1) == classes
    true = Labels.reshape(-1, 1) == classes
    weight = torch.ones(len(chosen), 1, dtype=kind, device=Indices.device)
    weight = weight if Weights is None else Weights.reshape(-1, 1).to(kind)
    kinds = (chosen & true, chosen & ~true, ~chosen & ~true, ~chosen & true)
    batch = torch.stack([(one * weight).sum(0) for one in kinds], 1).float()
    states = batch if StatesInfo is None else batch + StatesInfo.to(batch.dtype)
    return _metrics(batch), _metrics(states), states
