"""Sequences of words: cutting, listing, deleting, scattering; windows of images as sequences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.case import Case, Random, Rows, draw, lengths_of, normal, op
from benchmarks.operator_cases.sequences import COUNT, LONGEST, padded, present, rows

WORDS = 20


def _words(random: Random) -> Mapping[str, Any]:
    lengths = lengths_of(random, COUNT, 10, LONGEST)
    return {"X": Rows(random.randint(0, WORDS, (sum(lengths), 1)), lengths)}


def _cuts(random: Random) -> Mapping[str, Any]:
    given = rows(random)
    lengths = np.array(given.lengths)
    start = (lengths // 4)[:, None]
    return {"X": given, "Offset": start, "Length": (lengths // 2)[:, None]}


def _cut(given: Rows, start: Tensor, length: Tensor) -> Tensor:
    parts = given.values.split(given.lengths)
    return torch.cat(
        [
            part[begin : begin + size]
            for part, begin, size in zip(
                parts, start[:, 0].tolist(), length[:, 0].tolist(), strict=True
            )
        ]
    )


def _windows(given: Rows) -> Tensor:
    """3 words from each place on, 0 after the end."""
    table = F.pad(padded(given)[..., 0], (0, 2)).unfold(1, 3, 1)
    return table[present(given)]


def _erased(given: Rows) -> Tensor:
    return given.values[~torch.isin(given.values[:, 0], torch.tensor([2, 3, 5]))]


def _places(random: Random) -> Mapping[str, Any]:
    lengths = lengths_of(random, COUNT, 10, LONGEST)
    total = sum(lengths)
    return {
        "X": normal(random, COUNT, 1000),
        "Ids": Rows(random.randint(0, 1000, (total, 1)), lengths),
        "Updates": Rows(normal(random, total, 1), lengths),
    }


def _scattered(x: Tensor, ids: Rows, updates: Rows) -> Tensor:
    owner = torch.repeat_interleave(torch.arange(len(x)), torch.tensor(ids.lengths))
    flat = owner * x.shape[1] + ids.values[:, 0]
    return x.reshape(-1).index_add(0, flat, updates.values[:, 0]).view(x.shape)


def _heights(random: Random) -> Mapping[str, Any]:
    return {"X": random.randint(1, 200, (4096,))}


def _ctc(given: Rows) -> Tensor:
    """Repeated words once, without blanks; sequences of nothing give -1."""
    table = padded(given)[..., 0]
    before = F.pad(table[:, :-1], (1, 0), value=-1)
    kept = present(given) & (table != before) & (table != 0)
    return table[kept][:, None]


CASES = (
    Case("sequence_slice", _cuts, op("sequence_slice"), _cut, ("X",)),
    Case("sequence_enumerate", _words, op("sequence_enumerate", win_size=3), _windows),
    Case(
        "sequence_erase",
        _words,
        op("sequence_erase", tokens=[2, 3, 5]),
        _erased,
        reason="the new lengths of the sequences as well",
    ),
    Case(
        "sequence_scatter",
        _places,
        op("sequence_scatter"),
        _scattered,
        ("X", "Updates"),
    ),
    Case(
        "sequence_mask",
        _heights,
        op("sequence_mask", "Y", maxlen=200, out_dtype=5),
        lambda x: (torch.arange(200) < x[:, None]).float(),
    ),
    Case(
        "ctc_align",
        lambda random: {"Input": _words(random)["X"]},
        op("ctc_align", "Output", blank=0),
        _ctc,
        reason="the new lengths of the sequences as well",
    ),
    Case(
        "im2sequence",
        draw(X=(16, 32, 28, 28)),
        op("im2sequence", kernels=[3, 3], strides=[1, 1], paddings=[1, 1, 1, 1]),
        lambda x: F.unfold(x, 3, 1, 1).transpose(1, 2).reshape(-1, 32 * 9),
        ("X",),
    ),
)
