"""Random batches. `x.lengths` beside an array `x` are the lengths of the sequences in it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from refluid.measure.timing import Feed

Maker = Callable[[np.random.Generator], Feed]
LENGTHS = ".lengths"


def images(batch: int, shape: tuple[int, ...], classes: int) -> Maker:
    """image [batch, *shape], label [batch, 1]"""

    def make(random: np.random.Generator) -> Feed:
        image = random.standard_normal((batch, *shape), np.float32)
        return {"image": image, "label": random.integers(0, classes, (batch, 1))}

    return make


def language(batch: int, length: int, words: int) -> Maker:
    """words [batch, length], next [batch, length, 1]"""

    def make(random: np.random.Generator) -> Feed:
        text = random.integers(0, words, (batch, length + 1))
        return {"words": text[:, :-1].copy(), "next": text[:, 1:, None].copy()}

    return make


def lod_language(batch: int, shortest: int, longest: int, words: int) -> Maker:
    """words and next [rows, 1], in sequences"""
    return tagging(batch, shortest, longest, words, words, "next")


def tagging(
    batch: int, shortest: int, longest: int, words: int, tags: int, label: str = "tags"
) -> Maker:
    """words and tags [rows, 1], in sequences, one of which has the greatest length"""

    def make(random: np.random.Generator) -> Feed:
        lengths = random.integers(shortest, longest + 1, batch)
        lengths[0] = longest
        rows = (int(lengths.sum()), 1)
        return {
            "words": random.integers(0, words, rows),
            "words" + LENGTHS: lengths,
            label: random.integers(0, tags, rows),
            label + LENGTHS: lengths,
        }

    return make


def translation(batch: int, length: int, words: int) -> Maker:
    """source, target [batch, length]; next [batch, length, 1]; source_bias [batch, 1, 1, length]:
    0 at words, -1e9 after the end of the source; causal_bias [1, 1, length, length] alike"""

    def make(random: np.random.Generator) -> Feed:
        target = random.integers(0, words, (batch, length + 1))
        lengths = random.integers(length // 2, length + 1, (batch, 1))
        behind = np.arange(length)[None] >= lengths
        later = np.triu(np.ones((length, length), bool), 1)
        return {
            "source": random.integers(0, words, (batch, length)),
            "target": target[:, :-1].copy(),
            "next": target[:, 1:, None].copy(),
            "source_bias": _bias(behind)[:, None, None],
            "causal_bias": np.repeat(_bias(later)[None, None], batch, 0),
        }

    return make


def masked(batch: int, length: int, chosen: int, words: int) -> Maker:
    """words, types, positions [batch, length]; bias [batch, 1, 1, length]; for masked words their
    rows in the flattened batch and what they are, both [batch * chosen, 1]; follows [batch, 1]"""

    def make(random: np.random.Generator) -> Feed:
        lengths = random.integers(length // 2, length + 1, (batch, 1))
        rows = [
            random.choice(length // 2, chosen, replace=False) + i * length for i in range(batch)
        ]
        return {
            "words": random.integers(0, words, (batch, length)),
            "types": random.integers(0, 2, (batch, length)),
            "positions": np.tile(np.arange(length), (batch, 1)),
            "bias": _bias(np.arange(length)[None] >= lengths)[:, None, None],
            "masked": np.concatenate(rows)[:, None],
            "word": random.integers(0, words, (batch * chosen, 1)),
            "follows": random.integers(0, 2, (batch, 1)),
        }

    return make


def clicks(batch: int, dense: int, slots: int, ids: int) -> Maker:
    """dense [batch, dense]; slot0, slot1, ... and click [batch, 1]"""

    def make(random: np.random.Generator) -> Feed:
        feed: Feed = {"dense": random.random((batch, dense), np.float32)}
        feed |= {f"slot{i}": _popular(random, ids, (batch, 1)) for i in range(slots)}
        return feed | {"click": random.integers(0, 2, (batch, 1))}

    return make


def fields(batch: int, count: int, ids: int) -> Maker:
    """ids and values [batch, count], click [batch, 1] (float)"""

    def make(random: np.random.Generator) -> Feed:
        return {
            "ids": _popular(random, ids, (batch, count)),
            "values": random.random((batch, count), np.float32),
            "click": random.integers(0, 2, (batch, 1)).astype(np.float32),
        }

    return make


def ratings(batch: int, users: int, items: int) -> Maker:
    """user, item [batch, 1], liked [batch, 1] (float)"""

    def make(random: np.random.Generator) -> Feed:
        return {
            "user": _popular(random, users, (batch, 1)),
            "item": _popular(random, items, (batch, 1)),
            "liked": random.integers(0, 2, (batch, 1)).astype(np.float32),
        }

    return make


def skipgrams(batch: int, contexts: int, words: int) -> Maker:
    """center [batch, 1]; context [batch, contexts], the first is real; real [batch, contexts]"""

    def make(random: np.random.Generator) -> Feed:
        real = np.zeros((batch, contexts), np.float32)
        real[:, 0] = 1
        return {
            "center": _popular(random, words, (batch, 1)),
            "context": _popular(random, words, (batch, contexts)),
            "real": real,
        }

    return make


def _bias(hidden: npt.NDArray[np.bool_]) -> npt.NDArray[np.float32]:
    return np.where(hidden, np.float32(-1e9), np.float32(0))


def _popular(
    random: np.random.Generator, ids: int, shape: tuple[int, ...]
) -> npt.NDArray[np.int64]:
    """Low numbers are frequent, as in logs and texts: density falls as one over the number."""
    return (np.exp(random.random(shape) * np.log(ids)) - 1).astype(np.int64)
