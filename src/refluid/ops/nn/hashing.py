"""xxHash64 of rows of whole numbers, all rows at once."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from refluid.ops.registry import operator
from refluid.ops.signature import Long

Words = npt.NDArray[Any]  # of uint64; products and sums wrap around
_P1, _P2, _P3, _P4, _P5 = (
    np.uint64(one)
    for one in (
        0x9E3779B185EBCA87,
        0xC2B2AE3D27D4EB4F,
        0x165667B19E3779F9,
        0x85EBCA77C2B2AE63,
        0x27D4EB2F165667C5,
    )
)
_STRIPE = 32


def _rotated(x: Words, bits: int) -> Words:
    rotated: Words = (x << np.uint64(bits)) | (x >> np.uint64(64 - bits))
    return rotated


def _round(state: Words, word: Words) -> Words:
    return _rotated(state + word * _P2, 31) * _P1


def _from_stripes(words: Words, seed: np.uint64) -> Words:
    """The state after all full stripes of four words."""
    starts = (seed + _P1 + _P2, seed + _P2, seed, seed - _P1)
    lanes = [np.full(len(words), start, np.uint64) for start in starts]
    for place in range(0, words.shape[1] // 4 * 4, 4):
        lanes = [_round(lane, words[:, place + k]) for k, lane in enumerate(lanes)]
    state: Words = sum(
        (_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)),
        np.zeros(len(words), np.uint64),
    )
    for lane in lanes:
        state = (state ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    return state


def xxhash64(rows: npt.NDArray[np.uint8], seed: int) -> Words:
    """xxHash64 of each row of bytes; rows: (N, length), the result (N,) of uint64."""
    count, length = rows.shape
    start = np.uint64(seed)
    with np.errstate(over="ignore"):
        whole = length // 8
        words = np.ascontiguousarray(rows[:, : whole * 8]).view("<u8").astype(np.uint64)
        if length >= _STRIPE:
            state = _from_stripes(words, start)
        else:
            state = np.full(count, start + _P5, np.uint64)
        state = state + np.uint64(length)
        for place in range(length // _STRIPE * 4, whole):
            state = _rotated(state ^ _round(np.zeros_like(state), words[:, place]), 27) * _P1 + _P4
        rest = np.ascontiguousarray(rows[:, whole * 8 :])
        if rest.shape[1] >= 4:
            word = np.ascontiguousarray(rest[:, :4]).view("<u4")[:, 0].astype(np.uint64)
            state = _rotated(state ^ (word * _P1), 23) * _P2 + _P3
            rest = rest[:, 4:]
        for place in range(rest.shape[1]):
            state = _rotated(state ^ (rest[:, place].astype(np.uint64) * _P5), 11) * _P1
        state = (state ^ (state >> np.uint64(33))) * _P2
        state = (state ^ (state >> np.uint64(29))) * _P3
        mixed: Words = state ^ (state >> np.uint64(32))
        return mixed


def row_hashes(X: Tensor, seeds: int, modulo: int) -> Tensor:
    """Hashes with seeds 0, 1, ... of each row of X (N, C), modulo `modulo`: int64 (N, seeds)."""
    rows = X.detach().cpu().flatten(1).contiguous().numpy().view(np.uint8)
    made = np.stack([xxhash64(rows, seed) % np.uint64(modulo) for seed in range(seeds)], 1)
    return torch.from_numpy(made.astype(np.int64)).to(X.device)


@operator(
    "hash", outputs="Out", uses=None, extra={"@ALL_KERNELS_MUST_COMPUTE_RUNTIME_SHAPE@": True}
)
def hash(X: Tensor, *, num_hash: int = 1, mod_by: Long = 100000) -> Tensor:
    """xxHash64 of each row of X (N, C), with seeds 0 .. num_hash - 1, modulo `mod_by`.

    The result is (N, num_hash, 1), of the type of X.
    """
    if X.is_meta:
        return X.new_empty((X.shape[0], num_hash, 1))
    return row_hashes(X, num_hash, mod_by).to(X.dtype).unsqueeze(2)
