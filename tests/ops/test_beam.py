"""Beam search: choosing, ending, dropping, and reading the sentences back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid.core.errors import EnforceNotMet
from refluid.core.lod_tensor import LoDTensor, LoDTensorArray
from refluid.core.offsets import Offsets
from refluid.ops.rnn.beam import beam_search, gather_tree
from refluid.ops.rnn.beam_decoding import beam_search_decode

END = 1


def _column(*values: Any) -> torch.Tensor:
    return torch.tensor(values).view(-1, 1)


def _search(
    words: list[int], before: list[float], scores: Any, counts: list[int], **more: Any
) -> Any:
    attrs = {"level": 0, "beam_size": 2, "end_id": END} | more
    lod = (Offsets.of_lengths(counts), Offsets(range(len(words) + 1)))
    ids = attrs.pop("ids", None)
    return beam_search(
        _column(*words), _column(*before), ids, torch.tensor(scores), **attrs, lod_scores=lod
    )


def test_the_best_of_each_sentence_in_the_order_of_their_prefixes() -> None:
    scores = [[-3.0, -1.0, -4.0], [-2.0, -5.0, -0.5], [-1.0, -2.0, -3.0]]
    ids = torch.tensor([[5, 6, 7], [8, 9, 10], [11, 12, 13]])
    word, score, parent, lod, _ = _search([3, 4, 5], [0.0] * 3, scores, [2, 1], ids=ids)
    assert word.view(-1).tolist() == [6, 10, 11, 12]
    assert score.view(-1).tolist() == [-1.0, -0.5, -1.0, -2.0]
    assert parent.tolist() == [0, 1, 2, 2]
    assert [level.lengths for level in lod] == [[2, 1], [1, 1, 2]]


def test_probabilities_are_accumulated() -> None:
    word, score, *_ = _search(
        [3], [-1.0], [[0.25, 0.5, 0.25]], [1], is_accumulated=False, beam_size=1
    )
    assert word.tolist() == [[1]]
    torch.testing.assert_close(score, _column(-1.0) + torch.log(torch.tensor(0.5)))


def test_an_ended_prefix_stays_and_takes_a_place() -> None:
    scores = [[-0.1, -0.2], [-3.0, -4.0]]
    word, score, parent, *_ = _search([END, 5], [-1.0, -2.0], scores, [2])
    assert word.view(-1).tolist() == [END, 0]
    assert score.view(-1).tolist() == [-1.0, -3.0]
    assert parent.tolist() == [0, 1]


def test_a_sentence_that_has_ended_is_dropped() -> None:
    scores = [[-9.0, -9.0], [-9.0, -9.0], [-1.0, -2.0]]
    word, _, parent, lod, _ = _search([END, END, 5], [-1.0, -2.0, -0.5], scores, [2, 1])
    assert word.view(-1).tolist() == [0, 1]
    assert parent.tolist() == [2, 2]
    assert [level.lengths for level in lod] == [[2, 1], [0, 0, 2]]


def test_scores_need_sequences() -> None:
    with pytest.raises(EnforceNotMet, match="0 levels"):
        beam_search(
            _column(3),
            _column(0.0),
            None,
            torch.zeros(1, 2),
            level=0,
            beam_size=1,
            end_id=1,
            lod_scores=(),
        )


def _arrays(*steps: tuple[list[int], list[float], list[int], list[int]]) -> list[LoDTensorArray]:
    arrays = [LoDTensorArray(), LoDTensorArray()]
    for words, scores, high, low in steps:
        for array, values in zip(arrays, (words, scores), strict=True):
            tensor = LoDTensor(_column(*values))
            tensor.set_recursive_sequence_lengths([high, low])
            array.append(tensor)
    return arrays


def test_sentences_are_read_back_best_first() -> None:
    ids, scores = _arrays(
        ([0, 0], [0.0, 0.0], [1, 1], [1, 1]),
        ([5, 6, 7, 8], [-1.0, -2.0, -1.0, -3.0], [1, 1], [2, 2]),
        ([9, END, 4, END], [-1.5, -1.4, -2.0, -2.5], [2, 2], [1, 1, 2, 0]),
        ([END, END, END, END], [-1.9, -1.4, -2.1, -2.5], [2, 2], [1, 1, 1, 1]),
    )
    words, values, lod, _ = beam_search_decode(ids, scores, beam_size=2, end_id=END)
    sentences = [one.tolist() for one in words.split(lod[1].lengths)]
    assert sentences == [[0, 6, END], [0, 5, 9, END], [0, 7, 4, END], [0, 7, END]]
    assert lod[0].lengths == [2, 2]
    assert values.split(lod[1].lengths)[1].tolist() == pytest.approx([0.0, -1.0, -1.5, -1.9])


def test_a_dropped_sentence_ends_where_it_was_dropped() -> None:
    ids, scores = _arrays(
        ([5, 6], [-1.0, -1.0], [1, 1], [1, 1]),
        ([END, 7], [-2.0, -2.0], [1, 1], [1, 1]),
        ([8], [-3.0], [1, 1], [0, 1]),
    )
    words, _, lod, _ = beam_search_decode(ids, scores, beam_size=1, end_id=END)
    assert [one.tolist() for one in words.split(lod[1].lengths)] == [[5, END], [6, 7, 8]]


# What paddle 2.6.2 chose: scores of the prefixes' candidates, and which (prefix, candidate) stay.
TIES = (
    (2, [[2.0, 2.0, 1.0], [0.0, 2.0, 2.0]], [(1, 1), (1, 2)]),
    (2, [[2.0, 2.0, 2.0]], [(0, 0), (0, 2)]),
    (4, [[0.0, 0.0, 2.0, 0.0, 0.0], [-9.0] * 5], [(0, 2), (0, 0), (0, 1), (0, 4)]),
    (3, [[2.0, 2.0, 2.0, 2.0], [0.0, 1.0, 2.0, 0.0]], [(0, 0), (0, 1), (1, 2)]),
    (2, [[1.0, 1.0, 1.0, 2.0]], [(0, 3), (0, 0)]),
)


@pytest.mark.parametrize(("beam", "scores", "kept"), TIES)
def test_of_equal_scores(beam: int, scores: list[list[float]], kept: list[tuple[int, int]]) -> None:
    """Later prefixes come first, and what equals the last of a full beam takes its place."""
    rows = len(scores)
    word, _, parent, *_ = _search(
        [3] * rows, [0.0] * rows, scores, [rows], beam_size=beam, end_id=9
    )
    assert list(zip(parent.tolist(), word.view(-1).tolist(), strict=True)) == kept


def _one_by_one(scores: list[list[float]], ended: list[bool], beam: int) -> list[tuple[int, int]]:
    """(prefix, candidate) of what a beam keeps that sees the candidates one after the other, in the
    order of the prefixes, the best of each first."""
    held: list[tuple[float, int, int, int]] = []
    seen = 0
    for row, candidates in enumerate(scores):
        for column, score in enumerate(candidates[:1] if ended[row] else candidates):
            if score == -np.inf:
                continue
            full = len(held) == beam
            if full and (score, row) < held[-1][:2]:
                continue
            held = held[:-1] if full else held
            held = sorted([*held, (score, row, -seen, column)], reverse=True)
            seen += 1
    return [(row, column) for _, row, _, column in sorted(held, key=lambda one: one[1])]


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("named", [True, False])
def test_of_scores_at_random_with_many_ties(named: bool, kind: str) -> None:
    """What stays, its order, its scores and words, as a search says that looks at one by one."""
    random = np.random.default_rng(7)
    for _ in range(150):
        beam, columns = (int(one) for one in random.integers(1, 6, 2))
        counts = [int(one) for one in random.integers(0, beam + 1, random.integers(1, 4))]
        rows = sum(counts)
        scores = random.integers(0, 3, (rows, columns)).astype(kind)
        scores[random.random(scores.shape) < 0.1] = -np.inf
        ids = random.integers(2, 9, scores.shape) if named else None
        ended = random.random(rows) < 0.2
        words = np.where(ended, END, 3).tolist()
        best = np.where(np.isinf(scores[:, 0]), 0, scores[:, 0])
        given = np.where(ended[:, None], best[:, None], scores)
        named_ids = None if ids is None else torch.from_numpy(ids)
        word, score, parent, lod, _ = _search(
            words, best.tolist(), scores, counts, beam_size=beam, ids=named_ids
        )
        wanted, start = [], 0
        for count in counts:
            part = slice(start, start + count)
            one = _one_by_one(given[part].tolist(), ended[part].tolist(), beam)
            if not all(ended[start + row] for row, _ in one):  # else the sentence is dropped
                wanted += [(start + row, column) for row, column in one]
            start += count
        assert parent.tolist() == [row for row, _ in wanted]
        assert score.view(-1).tolist() == [given[one] for one in wanted]
        assert lod[1].lengths == [parent.tolist().count(row) for row in range(rows)]
        assert word.view(-1).tolist() == [
            END if ended[row] else column if ids is None else ids[row, column]
            for row, column in wanted
        ]


def test_steps_need_two_levels() -> None:
    array = LoDTensorArray()
    array.append(LoDTensor(_column(1)))
    with pytest.raises(EnforceNotMet, match="step 0 must have a LoD of two levels"):
        beam_search_decode(array, array, beam_size=1, end_id=1)
    with pytest.raises(EnforceNotMet, match="at least one"):
        beam_search_decode(LoDTensorArray(), LoDTensorArray(), beam_size=1, end_id=1)


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_gather_tree(steps: int) -> None:
    torch.manual_seed(0)
    ids, parents = torch.randint(0, 99, (steps, 2, 3)), torch.randint(0, 3, (steps, 2, 3))
    out = gather_tree(ids, parents)
    for batch in range(2):
        for beam in range(3):
            place, path = beam, []
            for step in reversed(range(steps)):
                path.append(int(ids[step, batch, place]))
                place = int(parents[step, batch, place])
            assert out[:, batch, beam].tolist() == path[::-1]
