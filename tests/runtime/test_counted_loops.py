"""Loops that count in Python give what those give that count in tensors: at random, to the bit."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.analysis.counting import CountedLoop, counted
from refluid.core import flags
from refluid.ir.operator import Operator
from tests.choices import often
from tests.fluid.once import own_programs

L = fluid.layers
FLAG = "FLAGS_refluid_counted_loops"
SEEDS = 80


@pytest.fixture(autouse=True)
def _own_programs() -> Iterator[None]:
    with own_programs():
        yield


def whole(value: int, dtype: str = "int64") -> fluid.Variable:
    return L.fill_constant([1], dtype, value)


class Drawn:
    """A random loop over a place, with arrays, branches and loops that may look at it."""

    def __init__(self, seed: int, x: fluid.Variable) -> None:
        self.draw = random.Random(seed)
        self.x, self.value = x, L.scale(x, 1.0)
        self.items = L.create_array("float32")
        for number in range(40):
            L.array_write(L.scale(x, 0.1 * number), whole(number), self.items)
        self.made = L.create_array("float32")
        self.seen = whole(-1)
        self.others: list[fluid.Variable] = [self.seen]
        L.array_write(x, whole(0), self.made)
        self.loop(depth=0)
        self.fetches = [self.value, L.array_length(self.made), *self.others]

    def loop(self, depth: int) -> None:
        """One loop."""
        draw = self.draw
        kind = draw.choice(["int64", "int64", "int32"])
        place, limit = whole(draw.randint(0, 5), kind), whole(draw.randint(0, 9), kind)
        step = draw.choice([1, 1, 2, 3])
        compare = draw.choice([L.less_than, L.less_than, L.less_equal])
        going = compare(place, limit)
        if draw.random() < 0.15:
            going = L.fill_constant([1], "bool", draw.random() < 0.5)
        body = [self.counting(place, step), self.comparing(compare, place, limit, going)]
        body.insert(draw.randint(0, 1), lambda: self.work(place, depth))
        if draw.random() < 0.1:
            body.reverse()
        if draw.random() < 0.12:
            body.insert(1, lambda: L.increment(limit, -1, in_place=True))
        if draw.random() < 0.12:
            body.append(lambda: L.assign(L.cast(going, "float32") + self.value, self.value))
        with L.While(going).block():
            for part in body:
                part()
        self.others += [place, going] * (depth == 0)

    def counting(self, place: fluid.Variable, step: int) -> Any:
        """What adds to the place."""
        ways = [
            lambda: L.increment(place, step, in_place=True),
            lambda: L.assign(place + step, place),
            lambda: L.assign(L.assign(L.scale(place, 1.0, bias=float(step))), place),
            lambda: L.assign(place + whole(step, place.dtype), place),
        ]
        return self.draw.choice(ways)

    def comparing(self, compare: Any, place: Any, limit: Any, going: Any) -> Any:
        """What says whether another round comes."""
        beyond = self.draw.choice([0, 0, 1])
        ways = [
            lambda: compare(place, limit, cond=going),
            lambda: L.assign(compare(place + beyond, limit), going),
        ]
        return self.draw.choice(ways)

    def work(self, place: fluid.Variable, depth: int) -> None:
        """What a round does besides."""
        plain = [self.plain, self.read, self.write]
        looking = [self.look, self.keep, self.keep_itself, self.branch, self.nest]
        for _ in range(self.draw.randint(1, 3)):
            kinds = plain if self.draw.random() < 0.75 else looking
            self.draw.choice(kinds)(place, depth)

    def plain(self, place: fluid.Variable, depth: int) -> None:
        L.assign(L.tanh(self.value + self.x), self.value)

    def read(self, place: fluid.Variable, depth: int) -> None:
        at = place + self.draw.choice([0, 1]) if self.draw.random() < 0.5 else place
        L.assign(self.value * 0.5 + L.array_read(self.items, at), self.value)

    def write(self, place: fluid.Variable, depth: int) -> None:
        L.array_write(self.value, place, self.made)

    def look(self, place: fluid.Variable, depth: int) -> None:
        L.assign(self.value + L.cast(place, "float32"), self.value)

    def keep(self, place: fluid.Variable, depth: int) -> None:
        L.assign(L.cast(place, "int64"), self.seen)

    def keep_itself(self, place: fluid.Variable, depth: int) -> None:
        if place.dtype == self.seen.dtype:
            L.assign(place, self.seen)

    def branch(self, place: fluid.Variable, depth: int) -> None:
        chosen = L.cond(
            L.less_than(L.reduce_sum(self.value), L.fill_constant([1], "float32", 0.3)),
            lambda: L.array_read(self.items, place),
            lambda: self.value * 0.7,
        )
        L.assign(chosen, self.value)

    def nest(self, place: fluid.Variable, depth: int) -> None:
        if depth < 1:
            self.loop(depth + 1)


def _loops() -> list[Operator]:
    blocks = fluid.default_main_program().blocks
    return [op for block in blocks for op in block.ops if op.type == "while"]


def _run(fetches: list[Any], value: Any, *, counts: bool, tier: str) -> list[Any]:
    exe, scope = fluid.Executor(), fluid.Scope()
    with flags.override({FLAG: counts, "FLAGS_refluid_tier": tier}):
        for _ in range(2):
            made = exe.run(feed={"x": value}, fetch_list=fetches, scope=scope)
    return [np.asarray(one) for one in made]


def _drawn(seed: int) -> list[Any]:
    """What is fetched of a random loop, its gradient with it."""
    x = fluid.data("x", [2, 3], "float32")
    x.stop_gradient = False
    drawn = Drawn(seed, x)
    gradients = fluid.gradients(L.reduce_sum(L.square(drawn.value)), x) if seed % 2 else []
    return drawn.fetches + [one for one in gradients if one is not None]


def _how() -> list[CountedLoop | None]:
    return [counted(op, set()) for op in _loops()]


@pytest.mark.parametrize("seed", often(range(SEEDS), range(28)))
def test_random_loops(seed: int) -> None:
    fetches = _drawn(seed)
    value = np.random.RandomState(seed).uniform(-1, 1, (2, 3)).astype("float32")
    tier = ["interpreted", "recorded"][seed // 2 % 2]
    wanted = _run(fetches, value, counts=False, tier=tier)
    found = _run(fetches, value, counts=True, tier=tier)
    for one, other in zip(wanted, found, strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)


def test_most_random_loops_count() -> None:
    kinds = []
    for seed in range(SEEDS):
        with own_programs():
            _drawn(seed)
            kinds += _how()
    counting = [one for one in kinds if one is not None]
    assert len(counting) > len(kinds) / 3
    assert len([one for one in counting if not one.inside]) > len(kinds) / 5
    assert len([one for one in counting if one.more]) > len(kinds) / 10
