"""Each trainer's program updates its own share, and all exchange the same things."""

from __future__ import annotations

from typing import Any

import pytest

import refluid.fluid as fluid
from refluid.analysis.verifier import verify
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.passes.data_parallel import balance
from refluid.passes.ownership import owners_of
from refluid.passes.sharding import Sharding, shard

SIZE = 3


def trained(clip: Any = None, every: int = 1) -> tuple[Program, str]:
    """A network with weight decay, and a loop that reads a parameter."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 8], "float32")
        hidden = fluid.layers.fc(x, 8, act="relu")
        shared = fluid.layers.create_parameter([8, 8], "float32", name="shared")
        hidden = fluid.layers.matmul(fluid.layers.matmul(hidden, shared), shared)
        loss = fluid.layers.mean(fluid.layers.fc(hidden, 4))
        optimizer: Any = fluid.optimizer.Momentum(
            0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.1), grad_clip=clip
        )
        if every > 1:
            optimizer = fluid.optimizer.GradientMergeOptimizer(optimizer, every)
        optimizer.minimize(loss)
    return main, loss.name


def programs(main: Program, loss: str, **options: Any) -> list[Program]:
    """Those of all trainers."""
    found = []
    for share in range(SIZE):
        copy = main.clone()
        shard(copy, Sharding(SIZE, loss, share, share=share, shares=SIZE, **options))
        verify(copy)
        found.append(copy)
    return found


def all_ops(program: Program) -> list[Operator]:
    return [op for block in program.blocks for op in block.ops]


def of_type(program: Program, kind: str) -> list[Operator]:
    return [op for op in all_ops(program) if op.type == kind]


@pytest.mark.parametrize("stage", [1, 2, 3])
@pytest.mark.parametrize("every", [1, 4])
def test_each_trainer_updates_its_own(stage: int, every: int) -> None:
    main, loss = trained(every=every)
    state = owners_of(main, SIZE)
    assert set(state.values()) == set(range(SIZE))
    updated: list[str] = []
    for share, program in enumerate(programs(main, loss, stage=stage)):
        updates = [op.input("Param")[0] for op in of_type(program, "momentum")]
        assert {state[name] for name in updates} == {share}
        updated += updates
        for op in all_ops(program):
            names = {*op.input_arg_names, *op.output_arg_names}
            foreign = {name for name in names if state.get(name, share) != share}
            kept = {one for one in foreign if "velocity" in one}
            assert not kept, f"{op.type} names {kept}"
            if stage == 3:
                assert not foreign, f"{op.type} names {foreign}"
    wanted = [op.input("Param")[0] for op in of_type(main, "momentum")]
    assert sorted(updated) == sorted(wanted)


def test_gradients_come_to_their_owners() -> None:
    main, loss = trained()
    (bucket,) = {
        tuple(op.attr("owners"))
        for one in programs(main, loss, stage=2, bucket_bytes=1 << 20)
        for op in of_type(one, "shard_reduce")
    }
    assert set(bucket) == set(range(SIZE))
    for one in programs(main, loss, stage=1):
        assert not of_type(one, "shard_reduce") and len(of_type(one, "allreduce")) == 5


@pytest.mark.parametrize(
    "options", [{"kept": frozenset(["shared@GRAD"])}, {"clip": True}], ids=["fetched", "clipped"]
)
def test_gradients_that_others_need_come_to_all(options: dict[str, Any]) -> None:
    clips = options.pop("clip", False)
    clip = fluid.clip.GradientClipByGlobalNorm(1.0) if clips else None
    main, loss = trained(clip)
    for one in programs(main, loss, stage=3, **options):
        assert not of_type(one, "shard_reduce") and len(of_type(one, "allreduce")) == 5


@pytest.mark.parametrize("limit", [0, 1, 300])
@pytest.mark.parametrize("every", [1, 4])
def test_trainers_gather_the_same(limit: int, every: int) -> None:
    main, loss = trained(every=every)
    gathered = [
        [(op.attr("owners"), op.attr("sizes")) for op in of_type(one, "shard_gather")]
        for one in programs(main, loss, stage=3, segment_bytes=limit)
    ]
    assert all(one == gathered[0] for one in gathered)
    assert len(gathered[0]) > 2 if limit else len(gathered[0]) == 2


def test_anchors_begin_segments() -> None:
    main, loss = trained()
    (anchor, *_) = of_type(main, "matmul")[1].output("Out")
    (first, *_) = programs(main, loss, stage=3, anchors=(anchor,))
    assert len(of_type(first, "shard_gather")) == 3


def test_everyone_has_about_as_much() -> None:
    main, _ = trained()
    assert sorted(balance(main.global_block(), SIZE).values()) == [0, 1, 2, 2, 2]


@pytest.mark.parametrize("stage", [1, 2])
def test_parameters_are_sent_before_others_use_them(stage: int) -> None:
    main, loss = trained()
    with fluid.program_guard(main):
        shared = main.global_block().var("shared")
        fluid.layers.scale(shared, 2.0)
        fluid.optimizer.SGD(0.1).apply_gradients([(shared, main.global_block().var("shared@GRAD"))])
    for program in programs(main, loss, stage=stage):
        ops = program.global_block().ops
        (reader,) = (op.idx for op in ops if op.type == "scale" and op.attr("scale") == 2.0)
        first, last = (op for op in ops if op.type == "shard_spread")
        assert first.idx == reader - 1
        assert last.input("X") == ["shared"]
        assert last is ops[-1]
