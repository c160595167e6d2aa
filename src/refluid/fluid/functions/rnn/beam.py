"""Beam search over LoD tensors and arrays of them."""

from __future__ import annotations

from typing import Any

from refluid.build import check_variables, op
from refluid.core.dtypes import VarType
from refluid.ir.variable import Variable


def beam_search(
    pre_ids: Variable,
    pre_scores: Variable,
    ids: Variable | None,
    scores: Variable,
    beam_size: int,
    end_id: int,
    level: int = 0,
    is_accumulated: bool = True,
    name: str | None = None,
    return_parent_idx: bool = False,
) -> Any:
    """One step of a beam search: selected ids and scores (n, 1), and the prefixes they continue.

    pre_ids, pre_scores: (prefixes, 1) with two levels of LoD, what the step before selected.
    scores (prefixes, candidates): accumulated ones, or with is_accumulated False probabilities
    of this step; ids name the candidates (by default the columns). return_parent_idx: int32
    (n,), the prefix of each selected one, is returned too.
    """
    inputs = {"pre_ids": pre_ids, "pre_scores": pre_scores, "scores": scores, "ids": ids}
    attrs = {
        "level": level,
        "beam_size": beam_size,
        "end_id": end_id,
        "is_accumulated": is_accumulated,
    }
    kinds = pre_scores.dtype, pre_ids.dtype, VarType.INT32
    makes = dict(zip(("selected_scores", "selected_ids", "parent_idx"), kinds, strict=True))
    best, chosen, parents = op("beam_search", inputs, attrs, makes, name=name)
    return (chosen, best, parents) if return_parent_idx else (chosen, best)


def beam_search_decode(
    ids: Variable, scores: Variable, beam_size: int, end_id: int, name: str | None = None
) -> tuple[Variable, Variable]:
    """All sentences that a beam search found, and their scores, each (words,) with two LoD levels.

    ids, scores: arrays of what `beam_search` selected at each step. The levels say how many
    sentences a source has and how many words a sentence.
    """
    check_variables("beam_search_decode", {"ids": ids, "scores": scores})
    inputs, attrs = {"Ids": ids, "Scores": scores}, {"beam_size": beam_size, "end_id": end_id}
    makes = {"SentenceIds": ids.dtype, "SentenceScores": scores.dtype}
    sentence_ids, sentence_scores = op("beam_search_decode", inputs, attrs, makes, name=name)
    return sentence_ids, sentence_scores


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """The whole paths (steps, batch, beam) from the words and parents chosen at each step."""
    inputs = {"Ids": ids, "Parents": parents}
    return op("gather_tree", inputs)
