"""Beam search over LoD tensors and arrays of them."""

from __future__ import annotations

from typing import Any

from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper, check_variables
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
    helper = LayerHelper("beam_search", name=name)
    inputs = {"pre_ids": pre_ids, "pre_scores": pre_scores, "scores": scores}
    inputs |= {} if ids is None else {"ids": ids}
    check_variables("beam_search", inputs)
    selected_scores = helper.create_variable_for_type_inference(pre_scores.dtype)
    selected_ids = helper.create_variable_for_type_inference(pre_ids.dtype)
    parents = helper.create_variable_for_type_inference(VarType.INT32)
    helper.append_op(
        type="beam_search",
        inputs=inputs,
        outputs={
            "selected_ids": selected_ids,
            "selected_scores": selected_scores,
            "parent_idx": parents,
        },
        attrs={
            "level": level,
            "beam_size": beam_size,
            "end_id": end_id,
            "is_accumulated": is_accumulated,
        },
    )
    if return_parent_idx:
        return selected_ids, selected_scores, parents
    return selected_ids, selected_scores


def beam_search_decode(
    ids: Variable, scores: Variable, beam_size: int, end_id: int, name: str | None = None
) -> tuple[Variable, Variable]:
    """All sentences that a beam search found, and their scores, each (words,) with two LoD levels.

    ids, scores: arrays of what `beam_search` selected at each step. The levels say how many
    sentences a source has and how many words a sentence.
    """
    helper = LayerHelper("beam_search_decode", name=name)
    check_variables("beam_search_decode", {"ids": ids, "scores": scores})
    sentence_ids = helper.create_variable_for_type_inference(ids.dtype)
    sentence_scores = helper.create_variable_for_type_inference(scores.dtype)
    helper.append_op(
        type="beam_search_decode",
        inputs={"Ids": ids, "Scores": scores},
        outputs={"SentenceIds": sentence_ids, "SentenceScores": sentence_scores},
        attrs={"beam_size": beam_size, "end_id": end_id},
    )
    return sentence_ids, sentence_scores


def gather_tree(ids: Variable, parents: Variable) -> Variable:
    """The whole paths (steps, batch, beam) from the words and parents chosen at each step."""
    inputs = {"Ids": ids, "Parents": parents}
    return LayerHelper("gather_tree").emit("gather_tree", inputs)
