"""CTC written out: the probability of a labelling summed over all alignments, and its gradient.

Right also where a label is the blank, which torch's own loss is not made for: such a label
may be entered from the label before it only by way of a blank, and from it the next label only
likewise. Both sums are done time step by time step for the whole batch.
"""

from __future__ import annotations

import torch
from torch import Tensor

_NEVER = float("-inf")


def align(
    log_probs: Tensor, labels: Tensor, times: Tensor, label_lengths: Tensor, blank: int
) -> tuple[Tensor, Tensor]:
    """-log p(labels), shape (batch,), and its gradient by the logits, of the shape of `log_probs`.

    log_probs: (time, batch, classes); labels: int64 (batch, longest). A labelling that doesn't
    fit into its time costs 0 and has no gradient.
    """
    states = _with_blanks(labels, blank)
    emitted = log_probs.gather(2, states.expand(log_probs.shape[0], -1, -1))
    last = 2 * label_lengths
    alphas = _forwards(emitted, _may_skip(states, blank, ahead=False), times, last)
    betas = _backwards(emitted, _may_skip(states, blank, ahead=True), times, last)
    ends = alphas[(times - 1).clamp(min=0), torch.arange(len(times), device=times.device)]
    total = torch.logaddexp(_at(ends, last), _at(ends, last - 1))
    grad = _gradient(log_probs, alphas + betas, states, total)
    usable = _fits(labels, times, label_lengths) & (times > 0)
    active = torch.arange(log_probs.shape[0], device=times.device).unsqueeze(1) < times
    grad = torch.where((active & usable).unsqueeze(2), grad, 0.0)
    return torch.where(usable, -total, 0.0), grad


def _with_blanks(labels: Tensor, blank: int) -> Tensor:
    states = labels.new_full((labels.shape[0], 2 * labels.shape[1] + 1), blank)
    states[:, 1::2] = labels
    return states


def _may_skip(states: Tensor, blank: int, *, ahead: bool) -> Tensor:
    """Which states may be left for the next but one, or entered from the last but one."""
    skip = torch.zeros_like(states, dtype=torch.bool)
    differs = states[:, 2:] != states[:, :-2]
    if ahead:
        skip[:, :-2] = differs & (states[:, :-2] != blank)
    else:
        skip[:, 2:] = differs & (states[:, 2:] != blank)
    return skip


def _shifted(values: Tensor, by: int) -> Tensor:
    shifted = torch.full_like(values, _NEVER)
    if by > 0:
        shifted[:, by:] = values[:, :-by]
    else:
        shifted[:, :by] = values[:, -by:]
    return shifted


def _step(values: Tensor, skip: Tensor, direction: int) -> Tensor:
    skipped = torch.where(skip, _shifted(values, 2 * direction), _NEVER)
    both = torch.logaddexp(values, _shifted(values, direction))
    return torch.logaddexp(both, skipped)


def _within(values: Tensor, last: Tensor) -> Tensor:
    places = torch.arange(values.shape[1], device=values.device)
    return torch.where(places <= last.unsqueeze(1), values, _NEVER)


def _forwards(emitted: Tensor, skip: Tensor, times: Tensor, last: Tensor) -> Tensor:
    """Log-sums of all beginnings, (time, batch, states)."""
    first = torch.full_like(emitted[0], _NEVER)
    first[:, :2] = emitted[0, :, :2]
    found = [_within(first, last)]
    for step in emitted[1:]:
        found.append(_within(_step(found[-1], skip, 1) + step, last))
    return torch.stack(found)


def _backwards(emitted: Tensor, skip: Tensor, times: Tensor, last: Tensor) -> Tensor:
    """Log-sums of all endings, (time, batch, states)."""
    places = torch.arange(emitted.shape[2], device=emitted.device)
    ends = (places == last.unsqueeze(1)) | (places == last.unsqueeze(1) - 1)
    current = torch.full_like(emitted[0], _NEVER)
    found: list[Tensor] = []
    for time in range(emitted.shape[0] - 1, -1, -1):
        final = (times == time + 1).unsqueeze(1)
        current = torch.where(final & ends, emitted[time], _step(current, skip, -1) + emitted[time])
        found.append(current)
    return torch.stack(found[::-1])


def _at(values: Tensor, place: Tensor) -> Tensor:
    found = values.gather(1, place.clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where(place < 0, _NEVER, found)


def _gradient(log_probs: Tensor, through: Tensor, states: Tensor, total: Tensor) -> Tensor:
    """Probability of each class, less that of being in a state with its label."""
    greatest = through.amax(2, keepdim=True).clamp(min=torch.finfo(through.dtype).min)
    weights = torch.zeros_like(log_probs)
    weights.scatter_add_(2, states.expand(through.shape), (through - greatest).exp())
    share = (weights.log() + greatest - log_probs - total.unsqueeze(1)).exp()
    return log_probs.exp() - torch.where(weights > 0, share, 0.0)


def _fits(labels: Tensor, times: Tensor, label_lengths: Tensor) -> Tensor:
    """Whether there is time for all labels, and for a blank between equal ones."""
    places = torch.arange(1, labels.shape[1], device=labels.device)
    repeats = (labels[:, 1:] == labels[:, :-1]) & (places < label_lengths.unsqueeze(1))
    return label_lengths + repeats.sum(1) <= times
