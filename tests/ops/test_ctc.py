"""CTC: the loss against all alignments counted out, decoding, and edit distances."""

from __future__ import annotations

from itertools import groupby, product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.ops.loss.ctc_lattice import align
from tests.ops.sequences import call, levels, random

TIMES, LABELS = [4, 2, 3, 1], [2, 1, 3, 1]
LOGITS = random(10, 4)
IDS = torch.tensor([[1], [3], [2], [1], [1], [2], [3]])
LODS = {"Logits": levels(TIMES), "Label": levels(LABELS)}


def _counted(logits: Any, label: list[int], blank: int) -> float:
    """-log of the probability of all paths that collapse to the label; 0 if there are none."""
    probs = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    total = 0.0
    for path in product(range(logits.shape[1]), repeat=len(logits)):
        if [one for one, _ in groupby(path) if one != blank] == label:
            total += float(np.prod([probs[time, one] for time, one in enumerate(path)]))
    return -float(np.log(total)) if total else 0.0


def _wanted() -> list[float]:
    logits = np.split(LOGITS.numpy(), np.cumsum(TIMES)[:-1])
    labels = np.split(IDS.flatten().numpy(), np.cumsum(LABELS)[:-1])
    pairs = zip(logits, labels, strict=True)
    return [_counted(one, other.tolist(), 0) for one, other in pairs]


def _padded(rows: Tensor, lengths: list[int]) -> Tensor:
    return torch.nn.utils.rnn.pad_sequence(list(rows.split(lengths)), batch_first=True)


def test_loss_of_sequences_and_of_padded() -> None:
    grad, loss = call("warpctc", {"Logits": LOGITS, "Label": IDS}, LODS)
    assert grad.shape == (4, 4, 4)
    np.testing.assert_allclose(loss.flatten(), _wanted(), rtol=1e-9)
    padded = {
        "Logits": _padded(LOGITS, TIMES).transpose(0, 1),
        "Label": _padded(IDS.flatten(), LABELS),
        "LogitsLength": torch.tensor(TIMES),
        "LabelLength": torch.tensor(LABELS),
    }
    same, also = call("warpctc", padded, {})
    assert torch.equal(loss, also)
    assert torch.equal(grad, same)


def test_written_out_is_the_same() -> None:
    grad, loss = call("warpctc", {"Logits": LOGITS, "Label": IDS}, LODS)
    log_probs = _padded(LOGITS, TIMES).transpose(0, 1).log_softmax(2)
    lengths = torch.tensor(TIMES), torch.tensor(LABELS)
    costs, by_hand = align(log_probs, _padded(IDS.flatten(), LABELS), *lengths, 0)
    torch.testing.assert_close(costs, loss.flatten())
    torch.testing.assert_close(by_hand, grad)


@pytest.mark.parametrize("normalised", [False, True])
def test_gradient(normalised: bool) -> None:
    logits = LOGITS.clone().requires_grad_()
    grad, _ = call("warpctc", {"Logits": LOGITS, "Label": IDS}, LODS)
    weights = random(4, 1, seed=1)
    inputs = {"Logits": LOGITS, "WarpCTCGrad": grad, "Loss@GRAD": weights}
    (found,) = call("warpctc_grad", inputs, LODS, norm_by_times=normalised)
    scale = weights.flatten() / torch.tensor(TIMES) if normalised else weights.flatten()
    losses = torch.nn.functional.ctc_loss(
        _padded(logits, TIMES).transpose(0, 1).log_softmax(2),
        _padded(IDS.flatten(), LABELS),
        torch.tensor(TIMES),
        torch.tensor(LABELS),
        reduction="none",
        zero_infinity=True,
    )
    (losses * scale).sum().backward()
    assert logits.grad is not None
    torch.testing.assert_close(found, logits.grad)


def test_a_label_that_is_the_blank_is_an_alignment_like_others() -> None:
    lods = {"Logits": levels([4]), "Label": levels([2])}
    inputs = {"Logits": LOGITS[:4], "Label": torch.tensor([[0], [1]])}
    grad, loss = call("warpctc", inputs, lods)
    assert torch.isfinite(loss).all()
    assert torch.isfinite(grad).all()


def test_greedy_decoding_of_sequences() -> None:
    ids = torch.tensor([0, 1, 2, 2, 0, 4, 0, 4, 5, 0, 6, 6, 0, 0, 7, 7, 7, 0]).unsqueeze(1)
    out, length, lod = call("ctc_align", {"Input": ids}, {"Input": levels([11, 7])})
    assert out.flatten().tolist() == [1, 2, 4, 4, 5, 6, 6, 7]
    assert length is None
    assert lod == levels([6, 2])
    out, _, lod = call("ctc_align", {"Input": ids * 0}, {"Input": levels([11, 7])})
    assert out.tolist() == [[-1]]
    assert lod == levels([0, 0])


def test_greedy_decoding_of_padded() -> None:
    ids = torch.tensor([[0, 1, 2, 2, 0, 4], [0, 4, 5, 0, 6, 0], [0, 7, 7, 7, 0, 0]])
    lengths = torch.tensor([[6], [5], [4]])
    out, length, _ = call("ctc_align", {"Input": ids, "InputLength": lengths}, {}, padding_value=9)
    assert out.tolist() == [[1, 2, 4, 9, 9, 9], [4, 5, 6, 9, 9, 9], [7, 9, 9, 9, 9, 9]]
    assert length.tolist() == [[3], [3], [1]]
    inputs = {"Input": ids[2:], "InputLength": lengths[:1]}
    out, length, _ = call("ctc_align", inputs, {}, merge_repeated=False)
    assert out.tolist() == [[7, 7, 7, 0, 0, 0]]


def _distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, a in enumerate(one):
        above, row = row, [i + 1]
        for j, b in enumerate(other):
            row.append(min(above[j + 1] + 1, row[j] + 1, above[j] + (a != b)))
    return row[-1]


WORDS = [("kitten", "sitting"), ("", "abc"), ("flaw", "lawn"), ("same", "same"), ("abcdef", "f")]


def _ids(words: list[str]) -> Tensor:
    return torch.tensor([ord(letter) for word in words for letter in word])


def test_edit_distance_takes_the_first_level_for_that_of_rows() -> None:
    """As recorded of Fluid (`faults/follow/edit_distance_two_levels`)."""
    ids = [torch.tensor(one).unsqueeze(1) for one in ([1, 0, 1, 2, 1, 4], [1, 3, 0, 2, 0, 4])]
    lod = levels([2, 1], [1, 3, 2])
    number, out = call(
        "edit_distance",
        {"Hyps": ids[0], "Refs": ids[1]},
        {"Hyps": lod, "Refs": lod},
        normalized=True,
    )
    assert number.tolist() == [2]
    assert out.tolist() == [[0.5], [1.0]]


@pytest.mark.parametrize("normalized", [False, True])
def test_edit_distance(normalized: bool) -> None:
    hyps, refs = map(list, zip(*WORDS, strict=True))
    sizes = [len(word) for word in hyps], [len(word) for word in refs]
    inputs = {"Hyps": _ids(hyps).unsqueeze(1), "Refs": _ids(refs).unsqueeze(1)}
    lods = {"Hyps": levels(sizes[0]), "Refs": levels(sizes[1])}
    number, out = call("edit_distance", inputs, lods, normalized=normalized)
    wanted = [_distance(*pair) / (len(pair[1]) if normalized else 1) for pair in WORDS]
    np.testing.assert_allclose(out.flatten(), wanted, rtol=1e-6)
    assert number.tolist() == [len(WORDS)]
    padded = {
        "Hyps": _padded(_ids(hyps), sizes[0]),
        "Refs": _padded(_ids(refs), sizes[1]),
        "HypsLength": torch.tensor(sizes[0]),
        "RefsLength": torch.tensor(sizes[1]),
    }
    assert torch.equal(call("edit_distance", padded, {}, normalized=normalized)[1], out)


def test_an_empty_reference_has_no_normalized_distance() -> None:
    inputs = {"Hyps": IDS[:2], "Refs": IDS[:2]}
    lods = {"Hyps": levels([1, 1]), "Refs": levels([2, 0])}
    with pytest.raises(EnforceNotMet, match="is empty"):
        call("edit_distance", inputs, lods, normalized=True)
