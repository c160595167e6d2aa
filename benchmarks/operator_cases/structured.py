"""Conditional random fields, CTC and beam search."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.case import Case, Random, Rows, lengths_of, normal, op
from benchmarks.operator_cases.sequences import padded, present, rows

TAGS, LETTERS = 20, 64


def _tagged(random: Random) -> Mapping[str, Any]:
    emission = rows(random, TAGS, 64)
    label = random.randint(0, TAGS, (sum(emission.lengths), 1))
    return {
        "Emission": emission,
        "Transition": normal(random, TAGS + 2, TAGS) * 0.1,
        "Label": Rows(label, emission.lengths),
    }


def _likelihood(emission: Rows, transition: Tensor, label: Rows) -> Tensor:
    """-log of the probability of the labels, all sequences at once, padded."""
    scores, tags, real = padded(emission), padded(label)[..., 0], present(emission)
    start, end, pairs = transition[0], transition[1], transition[2:]
    alpha = start + scores[:, 0]
    for step in range(1, scores.shape[1]):
        following = torch.logsumexp(alpha[:, :, None] + pairs, 1) + scores[:, step]
        alpha = torch.where(real[:, step, None], following, alpha)
    total = torch.logsumexp(alpha + end, 1)
    gained = (scores.gather(2, tags[..., None])[..., 0] * real).sum(1)
    moved = (pairs[tags[:, :-1], tags[:, 1:]] * real[:, 1:]).sum(1)
    last = tags.gather(1, torch.tensor(emission.lengths)[:, None] - 1)[:, 0]
    return (total - gained - moved - start[tags[:, 0]] - end[last])[:, None]


def _decoding(random: Random) -> Mapping[str, Any]:
    given = dict(_tagged(random))
    del given["Label"]
    return given


def _viterbi(emission: Rows, transition: Tensor) -> Tensor:
    scores, real = padded(emission), present(emission)
    pairs, back = transition[2:], []
    best = transition[0] + scores[:, 0]
    for step in range(1, scores.shape[1]):
        value, place = (best[:, :, None] + pairs).max(1)
        back.append(torch.where(real[:, step, None], place, torch.arange(TAGS)))
        best = torch.where(real[:, step, None], value + scores[:, step], best)
    tag = (best + transition[1]).argmax(1)
    path = [tag]
    for place in reversed(back):
        tag = place.gather(1, tag[:, None])[:, 0]
        path.append(tag)
    return torch.stack(path[::-1], 1)[real]


def _spoken(random: Random) -> Mapping[str, Any]:
    logits = rows(random, LETTERS, 32)
    lengths = [length // 3 + 1 for length in logits.lengths]
    label = random.randint(1, LETTERS, (sum(lengths), 1)).astype("int32")
    return {"Logits": logits, "Label": Rows(label, lengths)}


def _torch_ctc(logits: Rows, label: Rows) -> Tensor:
    chances = F.log_softmax(padded(logits), 2).transpose(0, 1)
    loss = F.ctc_loss(chances, label.values[:, 0], logits.lengths, label.lengths, reduction="none")
    return loss[:, None]


SENTENCES, BEAM, KEPT = 64, 4, 8


def _prefixes(random: Random) -> Mapping[str, Any]:
    count = SENTENCES * BEAM
    outer, inner = [BEAM] * SENTENCES, [1] * count
    scores = -random.random_sample((count, KEPT)).astype("float32")
    return {
        "pre_ids": random.randint(2, 10000, (count, 1)),
        "pre_scores": scores[:, :1].copy(),
        "ids": Rows(random.randint(2, 10000, (count, KEPT)), inner, outer),
        "scores": Rows(scores, inner, outer),
    }


def _torch_beam(pre_ids: Tensor, pre_scores: Tensor, ids: Rows, scores: Rows) -> Tensor:
    """The best of each sentence; a prefix that ended stays."""
    ended = pre_ids == 1
    value = scores.values.masked_fill(ended, -torch.inf)
    value[:, :1] = torch.where(ended, pre_scores, value[:, :1])
    word = torch.where(ended, 1, ids.values).view(SENTENCES, -1)
    best, place = value.view(SENTENCES, -1).topk(BEAM)
    order = torch.sort(place // KEPT, dim=1, stable=True).indices
    word.gather(1, place).gather(1, order)
    return best.gather(1, order).view(-1, 1)


def _heard(random: Random) -> Mapping[str, Any]:
    lengths = [lengths_of(random, 64, 10, 40) for _ in range(2)]
    parts = [random.randint(1, 30, (sum(one), 1)) for one in lengths]
    return {
        name: Rows(part, own)
        for name, part, own in zip(("Hyps", "Refs"), parts, lengths, strict=True)
    }


def _distances(hyps: Rows, refs: Rows) -> Tensor:
    """Row by row of the table; the cheapest way along a row is a running minimum."""
    ours, theirs = padded(hyps)[..., 0], padded(refs)[..., 0]
    places = torch.arange(theirs.shape[1] + 1)
    row = places.expand(len(ours), -1).float()
    found = [row]
    for step in range(ours.shape[1]):
        change = row[:, :-1] + (ours[:, step, None] != theirs)
        above = torch.cat((row[:, :1] + 1, torch.minimum(change, row[:, 1:] + 1)), 1)
        row = (above - places).cummin(1).values + places
        found.append(row)
    ends = torch.tensor(hyps.lengths), torch.arange(len(ours)), torch.tensor(refs.lengths)
    return torch.stack(found)[ends][:, None]


CASES = (
    Case(
        "linear_chain_crf",
        _tagged,
        op("linear_chain_crf", "LogLikelihood"),
        _likelihood,
        ("Emission", "Transition"),
        ("Transition",),
    ),
    Case("crf_decoding", _decoding, op("crf_decoding", "ViterbiPath"), _viterbi),
    Case(
        "warpctc",
        _spoken,
        op("warpctc", "Loss"),
        _torch_ctc,
        ("Logits",),
        reason="labels that are blanks are looked for: PyTorch takes them for padding",
    ),
    Case("edit_distance", _heard, op("edit_distance", normalized=False), _distances),
    Case(
        "beam_search",
        _prefixes,
        op("beam_search", "selected_scores", level=0, beam_size=BEAM, end_id=1),
        _torch_beam,
        reason="beams of any sizes, sentences that are finished, and LoD of what was selected",
    ),
)
