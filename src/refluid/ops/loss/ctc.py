"""Connectionist temporal classification: the loss, and decoding the best path."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.offsets import Levels, Offsets
from refluid.kernels import ctc
from refluid.ops.loss.ctc_lattice import align
from refluid.ops.metric.editing import padded_ids
from refluid.ops.registry import gradient, operator
from refluid.ops.sequence.ids import keep
from refluid.ops.sequence.levels import infer_from, rows_of_outermost, sequences_of
from refluid.ops.sequence.padded import inside, pad_rows, unpad_rows
from refluid.ops.sequence.padding import lengths_of


class _Labelled(NamedTuple):
    logits: Tensor  # (time, batch, classes)
    times: Offsets
    labels: Tensor  # int64 (batch, longest)
    label_lengths: Offsets


def _batch(
    logits: Tensor,
    label: Tensor,
    logits_length: Tensor | None,
    label_length: Tensor | None,
    lods: tuple[Levels, Levels],
) -> _Labelled:
    if logits_length is None:
        times = sequences_of(logits, lods[0], "Logits")
        logits = pad_rows(logits, times, times.longest).transpose(0, 1)
    else:
        times = lengths_of(logits_length, logits.shape[0])
    labels, label_lengths = padded_ids(label, label_length, lods[1], "Label")
    if len(times) != len(label_lengths):
        raise EnforceNotMet(f"{len(times)} sequences of Logits but {len(label_lengths)} of Label")
    return _Labelled(logits, times, labels.long(), label_lengths)


def _loss_and_gradient(batch: _Labelled, blank: int, wanted: bool) -> tuple[Tensor, Tensor | None]:
    """Costs (batch,) and, where wanted, the gradient by the logits, as `align` gives them."""
    log_probs = torch.log_softmax(batch.logits, 2)
    labels, lengths = batch.labels, batch.label_lengths
    used = inside(lengths, labels.shape[1], labels.device)
    classes = log_probs.shape[2]
    if bool((used & ((labels < 0) | (labels >= classes))).any()):
        raise EnforceNotMet(f"Label holds numbers that are none of the {classes} classes")
    if not ctc.IS_THERE or bool(((labels == blank) & used).any()):
        device = labels.device
        return align(
            log_probs,
            labels,
            batch.times.length_tensor(device),
            lengths.length_tensor(device),
            blank,
        )
    targets = torch.where(used, labels, 0)
    common = batch.times.lengths, lengths.lengths
    costs, grad = ctc.loss_and_gradient(log_probs, targets, *common, blank, wanted)
    return costs.masked_fill(torch.isinf(costs), 0.0), grad


@operator(
    "warpctc",
    outputs="WarpCTCGrad Loss",
    lod="",
    uses="Logits WarpCTCGrad LogitsLength",
    differentiable="Logits",
    infer=infer_from({"Loss": lambda Logits: (-1, 1)}),
)
def warpctc(
    Logits: Tensor,
    Label: Tensor,
    LogitsLength: Tensor | None = None,
    LabelLength: Tensor | None = None,
    *,
    lod_Logits: Levels,
    lod_Label: Levels,
    blank: int = 0,
    norm_by_times: bool = False,
    need: Sequence[bool] = (True, True),
) -> tuple[Tensor | None, Tensor]:
    """-log of the probability of each labelling, summed over all alignments, (batch, 1).

    Logits, before softmax: (n, classes) with sequences, or (time, batch, classes) with lengths;
    Label: (m, 1) with sequences, or (batch, longest) with lengths. 0 where a labelling doesn't
    fit into its time. WarpCTCGrad: the gradient by the logits, (time, batch, classes), unless
    nobody reads it.
    """
    lods = rows_of_outermost(lod_Logits), rows_of_outermost(lod_Label)
    batch = _batch(Logits, Label, LogitsLength, LabelLength, lods)
    if not 0 <= blank < batch.logits.shape[2]:
        raise EnforceNotMet(f"blank {blank} is none of the {batch.logits.shape[2]} classes")
    costs, grad = _loss_and_gradient(batch, blank, need[0])
    return grad, costs.unsqueeze(1)


@gradient("warpctc")
def warpctc_grad(
    Logits: Tensor,
    LogitsLength: Tensor | None,
    WarpCTCGrad: Tensor,
    d_Loss: Tensor,
    *,
    lod_Logits: Levels,
    norm_by_times: bool = False,
) -> Tensor:
    """WarpCTCGrad times d_Loss; norm_by_times: over the number of time steps."""
    if LogitsLength is None:
        times = sequences_of(Logits, rows_of_outermost(lod_Logits), "Logits")
    else:
        times = lengths_of(LogitsLength, Logits.shape[0])
    scale = d_Loss.reshape(-1, 1)
    if norm_by_times:
        scale = scale / times.length_tensor(Logits.device).clamp(min=1).unsqueeze(1)
    grad = WarpCTCGrad * scale
    return unpad_rows(grad.transpose(0, 1), times) if LogitsLength is None else grad


def _kept(ids: Tensor, first: Tensor, blank: int, merge_repeated: bool) -> Tensor:
    """Which are neither blank nor (if so wished) a repetition; `first` have none before them."""
    kept = ids != blank
    if not merge_repeated:
        return kept
    before = torch.cat((ids[..., :1], ids[..., :-1]), -1)
    return kept & (first | (ids != before))


def _align_sequences(
    ids: Tensor, sequences: Offsets, blank: int, merge_repeated: bool
) -> tuple[Tensor, Offsets]:
    numbers = ids.flatten()
    kept = _kept(numbers, sequences.positions(ids.device) == 0, blank, merge_repeated)
    found = numbers[kept].unsqueeze(1)
    offsets = keep(kept, sequences)
    return (found if offsets.total else ids.new_full((1, 1), -1)), offsets


def _align_padded(
    ids: Tensor, lengths: Tensor, blank: int, merge_repeated: bool, padding: int
) -> tuple[Tensor, Tensor]:
    places = torch.arange(ids.shape[1], device=ids.device)
    kept = _kept(ids, places == 0, blank, merge_repeated) & (places < lengths.reshape(-1, 1))
    # Kept ones move to the front; all others go to a column of their own at the end.
    target = torch.where(kept, kept.cumsum(1) - 1, ids.shape[1])
    out = ids.new_full((ids.shape[0], ids.shape[1] + 1), padding).scatter_(1, target, ids)
    return out[:, :-1].contiguous(), kept.sum(1, keepdim=True)


@operator(
    "ctc_align",
    outputs="Output OutputLength?",
    uses=None,
    lod="",
    makes_lod="Output",
    infer=infer_from(
        {"Output": lambda Input: Input, "OutputLength": lambda Input: (Input[0], 1)},
        levels={"Output": lambda Input: 0},
    ),
)
def ctc_align(
    Input: Tensor,
    InputLength: Tensor | None = None,
    *,
    lod_Input: Levels,
    blank: int = 0,
    merge_repeated: bool = True,
    padding_value: int = 0,
) -> tuple[Tensor, Tensor | None, Levels]:
    """Input without blanks, and without repetitions between two blanks if merge_repeated.

    Input: (n, 1) with sequences; one -1 is left where all become empty. Or (batch, longest) with
    InputLength (batch, 1): then padded with padding_value, lengths in OutputLength (batch, 1).
    """
    if InputLength is None:
        sequences = sequences_of(Input, rows_of_outermost(lod_Input), "Input")
        out, offsets = _align_sequences(Input, sequences, blank, merge_repeated)
        return out, None, (offsets,)
    out, lengths = _align_padded(Input, InputLength, blank, merge_repeated, padding_value)
    return out, lengths.to(InputLength.dtype), ()
