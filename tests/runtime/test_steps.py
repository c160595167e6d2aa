"""Steps as values: what each kind reads, writes, overwrites and prints."""

from __future__ import annotations

from typing import Any

import pytest

from refluid.ops.effects import Effect
from refluid.runtime.printing import text_of
from refluid.runtime.steps import (
    Bind,
    Call,
    Clear,
    Compound,
    ExchangeStart,
    ExchangeWait,
    For,
    Free,
    Function,
    If,
    Load,
    Pause,
    Return,
    Step,
    Store,
    While,
)
from refluid.runtime.trees import IGNORED, CellName, Known, Name, copied, method

ONE, OTHER, MADE = Name("v1"), Name("z1"), Name("v2")


def test_a_renamed_step_overwrites_what_it_is_given() -> None:
    step = Call(MADE, Known("relu_"), (ONE,), changes=frozenset({ONE}))
    block = If(method(ONE, "item"), body=[step])
    names = {ONE: OTHER, MADE: Name("z2")}
    for renamed in (step.renamed(lambda one: names.get(one, one)), *block.renamed(
        lambda one: names.get(one, one)
    ).inner):  # fmt: skip
        assert renamed.overwrites == {OTHER}
        assert renamed.reads == {OTHER} and renamed.writes == {"z2"}
    constant = step.renamed(lambda one: Known("k1") if one is ONE else one)
    assert not constant.overwrites and constant.known == {"relu_", "k1"}


V0, V1, V2, CELL = Name("v0"), Name("v1"), Name("v2"), CellName(3)
HEAD = method(V0, "item")
SEND = Call(V2, Known("send"), (V1,), acts=Effect.COMM)
# Steps, with what they read, write and overwrite, and their text.
KINDS: list[tuple[Step, set[Any], set[Any], set[Any], str]] = [
    (Bind(V1, copied(V0)), {V0}, {V1}, set(), "v1 = v0.clone()"),
    (Bind(None, method(V0, "append", V1)), {V0, V1}, set(), set(), "v0.append(v1)"),
    (
        Call((V1, IGNORED), Known("add"), (V0, [V2]), {"axis": 1}, changes=frozenset({V0})),
        {V0, V2},
        {V1},
        {V0},
        "v1, _ = add(v0, [v2], axis=1)",
    ),
    (
        ExchangeStart((V1, V2), Known("start"), (V0,)),
        {V0},
        {V1, V2},
        set(),
        "v1, v2 = start(v0)",
    ),
    (ExchangeWait(V2, changes=frozenset({V1})), {V2}, set(), {V1}, "v2.wait()"),
    (Load(V1, CELL), {CELL}, {V1}, set(), "v1 = C[3].value"),
    (Store(CELL, V0), {V0}, {CELL}, set(), "C[3].value = v0"),
    (Pause((V1,), ((V0,), ())), {V0}, {V1}, set(), "v1, = yield (v0,), ()"),
    (Free((V0, V1)), set(), {V0, V1}, set(), "del v0, v1"),
    (
        Free((V0,), V2),
        {V0, V2},
        {V0},
        set(),
        "v2.add(v0)\ndel v0",
    ),
    (Clear((V0, V1)), set(), {V0, V1}, set(), "v0 = v1 = None"),
    (Return(((V0,), ())), {V0}, set(), set(), "return (v0,), ()"),
    (
        If(HEAD, [SEND], [Bind(V2, None)]),
        {V0, V1},
        {V2},
        {V0, V1, V2},
        "if v0.item():\n    v2 = send(v1)\nelse:\n    v2 = None",
    ),
    (
        While(HEAD, [Bind(V0, V1)]),
        {V0, V1},
        {V0},
        {V0, V1},
        "while v0.item():\n    v0 = v1",
    ),
    (
        For(V1, [Bind(None, method(V0, "append", V2))], target=V2),
        {V0, V1, V2},
        {V2},
        {V0, V1, V2},
        "for v2 in v1:\n    v0.append(v2)",
    ),
    (
        Function(V2, [Bind(V1, V0)]),
        {V0},
        {V1, V2},
        {V0, V1, V2},
        "def v2():\n    nonlocal v1\n    v1 = v0",
    ),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind[0]).__name__)
def test_each_kind(kind: tuple[Step, set[Any], set[Any], set[Any], str]) -> None:
    step, reads, writes, overwrites, text = kind
    assert step.reads == reads
    assert step.writes == writes
    assert step.overwrites == overwrites
    assert text_of(step) == text


def test_no_kind_is_left_out() -> None:
    def below(kind: type[Step]) -> set[type[Step]]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    assert below(Step) - {Step, Compound} == {type(step) for step, *_ in KINDS}


def test_a_block_acts_as_its_steps_do() -> None:
    block = If(HEAD, [SEND], [])
    assert block.effects == Effect.COMM
    assert block.known == {Known("send")}
    renamed = block.renamed(lambda one: Name("w") if one == V1 else one)
    assert text_of(renamed) == "if v0.item():\n    v2 = send(w)"
    assert text_of(block) == "if v0.item():\n    v2 = send(v1)"
