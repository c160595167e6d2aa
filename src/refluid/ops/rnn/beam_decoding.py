"""The sentences that a beam search found, from the arrays of its steps."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor, LoDTensorArray
from refluid.core.offsets import Levels, Offsets
from refluid.ops.infer import no_inference
from refluid.ops.registry import operator


@dataclass(frozen=True)
class _Beam:
    """What one step chose: words, scores; of each its prefix, of each prefix its sentence."""

    words: Tensor
    scores: Tensor
    prefixes: Tensor
    sources: Tensor
    count: int


def _step(ids: LoDTensor | Tensor, scores: LoDTensor | Tensor, number: int) -> _Beam:
    lod = ids.lod() if isinstance(ids, LoDTensor) else []
    if len(lod) != 2:
        raise EnforceNotMet(
            f"beam_search_decode: the ids of step {number} must have a LoD of two levels, as "
            f"beam_search makes it, but have {len(lod)}"
        )
    words = ids.tensor if isinstance(ids, LoDTensor) else ids
    values = scores.tensor if isinstance(scores, LoDTensor) else scores
    high, low = Offsets(lod[0]), Offsets(lod[1])
    device = words.device
    owners = low.owners(device), high.owners(device)
    return _Beam(words.reshape(-1), values.reshape(-1), *owners, len(high))


@operator(
    "beam_search_decode",
    outputs="SentenceIds SentenceScores",
    uses=None,
    lod="",
    makes_lod="SentenceIds SentenceScores",
    infer=no_inference,
)
def beam_search_decode(
    Ids: LoDTensorArray, Scores: LoDTensorArray, *, beam_size: int, end_id: int
) -> tuple[Tensor, Tensor, Levels, Levels]:
    """All words of all sentences found, (n,), and the scores up to each, the best sentence first.

    Ids and Scores hold what `beam_search` selected at each step, with its LoD. The LoD of the
    results says how many sentences each source has, and how many words each sentence. A sentence
    keeps one end_id.
    """
    if not Ids or len(Ids) != len(Scores):
        raise EnforceNotMet(
            f"beam_search_decode takes as many steps of scores as of ids, and at least one; "
            f"these are {len(Scores)} and {len(Ids)}"
        )
    steps = [_step(*pair, number) for number, pair in enumerate(zip(Ids, Scores, strict=True))]
    words, scores, kept, sources = _walk_back(steps, end_id)
    last = kept.shape[1] - 1 - kept.flip(1).long().argmax(1)
    best = scores.gather(1, last.unsqueeze(1)).squeeze(1)
    order = torch.sort(best, descending=True, stable=True).indices
    order = order[torch.sort(sources[order], stable=True).indices]
    counts = torch.bincount(sources, minlength=steps[0].count).tolist()
    kept = kept[order]
    lod = Offsets.of_lengths(counts), Offsets.of_lengths(kept.sum(1).tolist())
    return words[order][kept], scores[order][kept], lod, lod


def _walk_back(steps: list[_Beam], end_id: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Words, scores and which count, (sentences, steps), and each sentence's source.

    A source's sentences are what its last step with any chose; they are followed to the first
    step. All sentences of all sources go together.
    """
    device = steps[0].words.device
    started = torch.zeros(steps[0].count, dtype=torch.bool, device=device)
    places = torch.empty(0, dtype=torch.long, device=device)
    sources = places
    columns: list[tuple[Tensor, Tensor, Tensor]] = []
    for step in reversed(steps):
        of_source = step.sources[step.prefixes]
        fresh = (~started[of_source]).nonzero().view(-1)
        fresh_sources = of_source[fresh]
        started[fresh_sources] = True
        known = places.numel()
        places, sources = torch.cat((places, fresh)), torch.cat((sources, fresh_sources))
        words = step.words[places]
        first = torch.arange(places.numel(), device=device) >= known
        columns.append((words, step.scores[places], first | (words != end_id)))
        places = step.prefixes[places]
    columns.reverse()
    count = sources.numel()
    words, scores, kept = (
        torch.stack([_filled(column[part], count) for column in columns], 1) for part in range(3)
    )
    return words, scores, kept, sources


def _filled(values: Tensor, count: int) -> Tensor:
    """Extended by zeros for the sentences that ended before."""
    return torch.cat((values, values.new_zeros(count - values.numel())))
