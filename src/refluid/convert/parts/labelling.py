"""Linear-chain CRF, CTC and what is counted of strings of labels."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from refluid.convert.parts.sequences import padded, places_of, unpadded


def crf_cost(x: Tensor, transition: Tensor, label: Tensor, lengths: Tensor) -> Tensor:
    """-log of the probability of each sequence's labels (sequences, 1); x: (rows, tags).

    transition (tags + 2, tags): from the start, to the end, from tag to tag.
    """
    start, end, move = transition[0], transition[1], transition[2:]
    emission, tags = padded(x, lengths), padded(label.flatten(), lengths)
    last = (lengths - 1).clamp(min=0)
    alpha = emission[:, 0] + start
    gained = alpha.gather(1, tags[:, :1]).squeeze(1)
    for t in range(1, emission.shape[1]):
        inside = t < lengths
        new = (alpha[:, :, None] + move).logsumexp(1) + emission[:, t]
        alpha = torch.where(inside[:, None], new, alpha)
        step = emission[:, t].gather(1, tags[:, t : t + 1]).squeeze(1)
        gained = gained + torch.where(inside, step + move[tags[:, t - 1], tags[:, t]], 0.0)
    gained = gained + end[tags.gather(1, last[:, None]).squeeze(1)]
    cost = (alpha + end).logsumexp(1) - gained
    return torch.where(lengths > 0, cost, 0.0)[:, None]


def viterbi(x: Tensor, transition: Tensor, lengths: Tensor) -> Tensor:
    """The most likely tags of each sequence (rows, 1); transition as in `crf_cost`."""
    start, end, move = transition[0], transition[1], transition[2:]
    emission = padded(x, lengths)
    score, choices = emission[:, 0] + start, []
    for t in range(1, emission.shape[1]):
        best, choice = (score[:, :, None] + move).max(1)
        inside = (t < lengths)[:, None]
        score = torch.where(inside, best + emission[:, t], score)
        choices.append(torch.where(inside, choice, torch.arange(len(end), device=x.device)))
    path = [(score + end).argmax(1)]
    for choice in reversed(choices):
        path.append(choice.gather(1, path[-1][:, None]).squeeze(1))
    return unpadded(torch.stack(path[::-1], 1), lengths)[:, None]


def ctc_cost(
    x: Tensor, lengths: Tensor, label: Tensor, label_lengths: Tensor, blank: int, by_times: bool
) -> Tensor:
    """The CTC loss of each sequence (sequences, 1) of logits (rows, classes).

    by_times: its gradient, not its value, is divided by the sequence's length.
    """
    log_probs = F.log_softmax(padded(x, lengths), dim=-1).transpose(0, 1)
    cost = F.ctc_loss(
        log_probs, label.flatten(), lengths, label_lengths, blank=blank, reduction="none"
    )
    if by_times:
        shared = cost / lengths.clamp(min=1)
        cost = shared + (cost - shared).detach()
    return cost[:, None]


def ctc_collapsed(x: Tensor, lengths: Tensor, blank: int, merge: bool) -> tuple[Tensor, Tensor]:
    """Labels without blanks, and without repetitions if `merge`; what there is, and its lengths."""
    flat, places = x.flatten(), places_of(lengths)
    kept = flat != blank
    if merge:
        kept &= (places == 0) | (flat != flat.roll(1))
    owners = torch.arange(len(lengths), device=x.device).repeat_interleave(lengths)
    return flat[kept][:, None], torch.bincount(owners[kept], minlength=len(lengths))


def erased(x: Tensor, lengths: Tensor, tokens: list[int]) -> tuple[Tensor, Tensor]:
    """Sequences of numbers without some of them, and their lengths."""
    kept = ~torch.isin(x.flatten(), torch.tensor(tokens, device=x.device))
    owners = torch.arange(len(lengths), device=x.device).repeat_interleave(lengths)
    return x[kept], torch.bincount(owners[kept], minlength=len(lengths))


def edit_distances(
    hyps: Tensor, hyp_lengths: Tensor, refs: Tensor, ref_lengths: Tensor, normalized: bool
) -> Tensor:
    """How many insertions, deletions and substitutions lie between each two (pairs, 1)."""
    pairs = zip(
        hyps.flatten().split(hyp_lengths.tolist()), refs.flatten().split(ref_lengths.tolist())
    )
    found = []
    for hyp, ref in pairs:
        row = list(range(len(ref) + 1))
        for i, one in enumerate(hyp.tolist(), 1):
            before, row = row, [i]
            for j, other in enumerate(ref.tolist(), 1):
                row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (one != other)))
        found.append(row[-1] / (len(ref) if normalized else 1))
    return torch.tensor(found, dtype=torch.float32, device=hyps.device)[:, None]
