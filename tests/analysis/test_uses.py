"""Reads, writes and versions of random programs, against a walk that is slow and plain."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from refluid.analysis.uses import (
    DefUse,
    Key,
    Version,
    blocks_in_use,
    key_of,
    names_in_use,
    reads,
    uses_in,
    uses_of,
    writes,
)
from refluid.ir.attributes import AttrType
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.names import EMPTY, GRAD
from refluid.ir.operator import Operator
from refluid.ir.program import Program

NAMES = [f"v{number}" for number in range(6)]
SEEDS = range(60)


def random_program(seed: int) -> Program:
    """Blocks in blocks, gradient blocks, names declared in several of them or nowhere, names that
    are overwritten, empty places, and blocks that nothing runs."""
    draw = random.Random(seed)
    program = Program()
    for _ in range(draw.randrange(5)):
        program.create_block(draw.randrange(program.num_blocks))
        if draw.random() < 0.4 and program.num_blocks > 2:
            program.current_block().forward_block_idx = draw.randrange(1, program.num_blocks - 1)
    idle = [block for block in program.blocks[1:] if draw.random() < 0.8]
    for block in program.blocks:
        for name in draw.sample(NAMES, draw.randrange(len(NAMES))):
            block.create_var(name=name)
        Editor(block).append(*(random_op(draw, block) for _ in range(draw.randrange(8))))
    for inner in idle:
        assert inner.parent is not None
        attrs = {"sub_block": inner}
        op = Operator(
            inner.parent, "while", *random_slots(draw), attrs, {"sub_block": AttrType.BLOCK}
        )
        Editor(inner.parent).insert(draw.randrange(len(inner.parent.ops) + 1), op)
    program.current_block_idx = 0
    return program


def random_op(draw: random.Random, block: Block) -> Operator:
    return Operator(block, "any", *random_slots(draw))


def random_slots(draw: random.Random) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    def some() -> list[str]:
        return draw.choices([*NAMES, NAMES[0] + GRAD, EMPTY], k=draw.randrange(4))

    return {"X": some(), "Y": some()}, {"Out": some()}


# -- the oracle ---------------------------------------------------------------


def plain_key(block: Block, name: str) -> Key:
    around: list[Block] = []
    one: Block | None = block
    while one is not None:
        around += [one, *(b for b in block.program.blocks if b.idx == one.forward_block_idx)]
        one = one.parent
    return next(((one.idx, name) for one in around if name in one.vars), (block.idx, name))


def plain_uses(op: Operator, kind: str) -> Iterator[Key]:
    slots = op.inputs if kind == "reads" else op.outputs
    yield from (plain_key(op.block, n) for names in slots.values() for n in names if n != EMPTY)
    for name, attr_type in op.attr_types.items():
        if attr_type == AttrType.BLOCK:
            inner = op.attrs[name]
            for one in inner.ops:
                for key in plain_uses(one, kind):
                    if key[0] not in (inner.idx, inner.forward_block_idx):
                        yield key


def plain_walk(block: Block) -> Iterator[tuple[int, str, Version]]:
    """(position, "reads" or "writes", version), by counting writes as they come."""
    counts: dict[str, int] = {}
    for position, op in enumerate(block.ops):
        for name in {name for _, name in plain_uses(op, "reads")}:
            yield position, "reads", Version(name, counts.get(name, 0))
        for name in {name for _, name in plain_uses(op, "writes")}:
            counts[name] = counts.get(name, 0) + 1
            yield position, "writes", Version(name, counts[name])


# -- agreement ----------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_operators_read_and_write_as_the_oracle_says(seed: int) -> None:
    program = random_program(seed)
    for block in program.blocks:
        for op in block.ops:
            assert reads(op) == set(plain_uses(op, "reads"))
            assert writes(op) == set(plain_uses(op, "writes"))


def check_versions(block: Block) -> None:
    uses, walk = uses_in(block), list(plain_walk(block))
    made = {version: place for place, kind, version in walk if kind == "writes"}
    for place, kind, version in walk:
        assert (uses.before if kind == "reads" else uses.after)(place, version.name) == version
    for version in {version for _, _, version in walk} | {Version(name, 0) for name in NAMES}:
        assert uses.maker(version) == made.get(version)
        read = [place for place, kind, one in walk if kind == "reads" and one == version]
        assert uses.users(version) == read
    for name in NAMES:
        mine = [(place, kind) for place, kind, version in walk if version.name == name]
        for low in range(len(block.ops)):
            for reading in (False, True):
                found = uses.between(name, len(block.ops) - 1, low, reads=reading)
                wanted = [at for at, kind in mine if at >= low and (reading or kind == "writes")]
                assert sorted(found) == sorted(wanted)
            inside = all(low <= place < low + 2 for place, _ in mine)
            assert uses.within(name, low, low + 2) == inside
        seen = [kind for _, kind in mine]
        assert uses.made_here(name) == (seen[:1] == ["writes"])
        assert uses.overwritten(name) == ("writes" in seen[1:])


@pytest.mark.parametrize("seed", SEEDS)
def test_versions_are_made_and_read_where_the_oracle_says(seed: int) -> None:
    for block in random_program(seed).blocks:
        check_versions(block)


@pytest.mark.parametrize("seed", SEEDS)
def test_blocks_in_use_and_what_they_share(seed: int) -> None:
    program = random_program(seed)
    found: list[int] = []

    def run(block: Block) -> None:
        if block.idx not in found:
            found.append(block.idx)
            for op in block.ops:
                if "sub_block" in op.attrs:
                    run(op.attrs["sub_block"])

    run(program.global_block())
    assert {block.idx for block in blocks_in_use(program)} == set(found)
    for block in program.blocks:
        others = [one for one in program.blocks if one.idx in found and one is not block]
        named = {name for one in others for op in one.ops for name in op.arg_names}
        assert uses_in(block).shared == named
    assert names_in_use(program) == {
        n for b in program.blocks for op in b.ops for n in op.arg_names
    }


@pytest.mark.parametrize("seed", SEEDS)
def test_changes_are_seen_at_once(seed: int) -> None:
    """After every change by an editor, of a slot, or of the variables."""
    draw = random.Random(seed)
    program = random_program(seed)
    for _ in range(8):
        block = draw.choice(program.blocks)
        editor, ops = Editor(block), list(block.ops)
        change = draw.randrange(6)
        if change == 0 or not ops:
            editor.insert(draw.randrange(len(ops) + 1), random_op(draw, block))
        elif change == 1:
            editor.remove(draw.choice(ops))
        elif change == 2:
            draw.choice(ops).set_input("X", draw.choices(NAMES, k=2))
        elif change == 3:
            draw.choice(ops).rename_output(draw.choice(NAMES), draw.choice(NAMES))
        elif change == 4:
            editor.forget_variables(draw.choices(NAMES, k=2))
        else:
            block.create_var(name=draw.choice(NAMES))
        for one in program.blocks:
            check_versions(one)


def test_what_is_known_is_kept_until_the_program_changes() -> None:
    program = random_program(1)
    block = program.global_block()
    first = uses_in(block)
    assert uses_in(block) is first
    program.touch()
    assert uses_in(block) is not first
    assert uses_in(program.clone().global_block()) is not uses_in(block)


def test_some_operators_and_some_of_their_reads() -> None:
    block = random_program(7).global_block()
    some = block.ops[1:]
    assert uses_of(some).readers == {
        name: [place - 1 for place in places if place > 0]
        for name, places in uses_in(block).readers.items()
        if places != [0]
    }
    assert not uses_of(some, lambda op: ()).readers


def test_other_things_than_operators() -> None:
    steps = [("a", "b"), ("b", "b"), ("b", "c")]
    uses = DefUse(steps, lambda step: step[:1], lambda step: step[1:])
    assert uses.users(uses.after(1, "b")) == [2]
    assert uses.overwritten("b")
    assert uses.made_here("b")
    assert not uses.made_here("a")


def test_gradient_blocks_see_their_forward_block() -> None:
    program = Program()
    forward = program.create_block()
    forward.create_var(name="x")
    gradient = program.create_block(0)
    gradient.forward_block_idx = forward.idx
    assert key_of(gradient, "x") == (forward.idx, "x")
    assert key_of(program.global_block(), "x") == (0, "x")
