"""Operators on sequences. PyTorch pads them, or works on segments, whichever is faster."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from benchmarks.operator_cases.case import Case, Random, Rows, lengths_of, normal, op

COUNT, LONGEST, WIDTH = 128, 80, 256


def rows(random: Random, width: int = WIDTH, count: int = COUNT) -> Rows:
    """Sequences of 10 to 80 rows."""
    lengths = lengths_of(random, count, 10, LONGEST)
    return Rows(normal(random, sum(lengths), width), lengths)


def padded(given: Rows, value: float = 0.0) -> Tensor:
    """(sequences, longest, width)."""
    if not given.values.requires_grad:
        return pad_sequence(given.values.split(given.lengths), True, value)
    shape = len(given.lengths), max(given.lengths), *given.values.shape[1:]
    out = given.values.new_full(shape, value)  # pad_sequence takes 100 times as long backward
    out[present(given)] = given.values
    return out


def present(given: Rows) -> Tensor:
    """Which places of the padded sequences hold rows."""
    lengths = torch.tensor(given.lengths)
    return torch.arange(max(given.lengths)) < lengths[:, None]


def _alone(width: int = WIDTH) -> Callable[[Random], Mapping[str, Any]]:
    return lambda random: {"X": rows(random, width)}


def _segments(kind: str) -> Callable[[Rows], Tensor]:
    def peer(given: Rows) -> Tensor:
        lengths = torch.tensor(given.lengths)
        return torch.segment_reduce(given.values, kind, lengths=lengths, unsafe=True)

    return peer


def _convolve(given: Rows, filters: Tensor) -> Tensor:
    weight = filters.view(3, WIDTH, -1).permute(2, 1, 0)
    out = F.conv1d(padded(given).transpose(1, 2), weight, padding=1).transpose(1, 2)
    return out[present(given)]


def _softmax(given: Rows) -> Tensor:
    found = torch.softmax(padded(given, -torch.inf), 1)
    return found[present(given)]


def _ahead(given: Rows, filters: Tensor) -> Tensor:
    weight = filters.t()[:, None]
    spread = F.pad(padded(given).transpose(1, 2), (0, len(filters) - 1))
    return F.conv1d(spread, weight, groups=WIDTH).transpose(1, 2)[present(given)]


def _reverse(given: Rows) -> Tensor:
    return torch.cat([part.flip(0) for part in given.values.split(given.lengths)])


def _join(one: Rows, other: Rows) -> Tensor:
    pairs = zip(one.values.split(one.lengths), other.values.split(other.lengths), strict=True)
    return torch.cat([part for pair in pairs for part in pair])


def _convolved(random: Random) -> Mapping[str, Any]:
    return {"X": rows(random), "Filter": normal(random, 3 * WIDTH, 256)}


def _expanded(random: Random) -> Mapping[str, Any]:
    like = rows(random, 1)
    return {"X": normal(random, COUNT, WIDTH), "Y": like}


def _padding(random: Random) -> Mapping[str, Any]:
    return {"X": rows(random), "PadValue": normal(random, 1) * 0}


def _dense(random: Random) -> Mapping[str, Any]:
    lengths = np.array(lengths_of(random, COUNT, 10, LONGEST))
    return {"X": normal(random, COUNT, LONGEST, WIDTH), "Length": lengths}


def _unpad(x: Tensor, lengths: Tensor) -> Tensor:
    return x[torch.arange(LONGEST) < lengths[:, None]]


def _repeat(x: Tensor, like: Rows) -> Tensor:
    return torch.repeat_interleave(x, torch.tensor(like.lengths), 0)


def _two(random: Random) -> Mapping[str, Any]:
    return {"X0": rows(random), "X1": rows(random)}


def _looking_ahead(random: Random) -> Mapping[str, Any]:
    return {"X": rows(random), "Filter": normal(random, 6, WIDTH)}


def _last(given: Rows) -> Tensor:
    return given.values[torch.tensor(given.lengths).cumsum(0) - 1]


CASES = (
    *(
        Case(
            f"sequence_pool, {kind}",
            _alone(),
            op("sequence_pool", pooltype=pooltype),
            _segments(kind),
            ("X",),
        )
        for kind, pooltype in (("sum", "SUM"), ("mean", "AVERAGE"), ("max", "MAX"))
    ),
    Case(
        "sequence_pool, last",
        _alone(),
        op("sequence_pool", pooltype="LAST"),
        _last,
        ("X",),
    ),
    Case(
        "sequence_conv",
        _convolved,
        op("sequence_conv", contextLength=3, contextStart=-1, contextStride=1),
        _convolve,
        ("X", "Filter"),
        ("Filter",),
    ),
    Case("row_conv", _looking_ahead, op("row_conv"), _ahead, ("X", "Filter"), ("Filter",)),
    Case(
        "sequence_softmax",
        lambda random: {"X": rows(random, 1, 1024)},
        op("sequence_softmax"),
        _softmax,
        ("X",),
    ),
    Case(
        "sequence_expand",
        _expanded,
        op("sequence_expand", ref_level=0),
        _repeat,
        ("X",),
        reason="0.02 ms of the run itself, and 0.03 ms for the offsets of the result",
    ),
    Case(
        "sequence_expand_as",
        _expanded,
        op("sequence_expand_as"),
        _repeat,
        ("X",),
        reason="0.02 ms of the run itself, and 0.03 ms for the offsets of the result",
    ),
    Case(
        "sequence_pad",
        _padding,
        op("sequence_pad"),
        lambda given, _: padded(given),
        ("X",),
        reason="one index for all rows, on any device, after a copy with the padding after them",
    ),
    Case("sequence_unpad", _dense, op("sequence_unpad"), _unpad, ("X",)),
    Case("sequence_reverse", _alone(), op("sequence_reverse", "Y"), _reverse, ("X",)),
    Case("sequence_concat", _two, op("sequence_concat"), _join, ("X0", "X1")),
)
