"""The program that each replica runs."""

from refluid import fluid
from refluid.core.dtypes import VarType
from refluid.passes.data_parallel import GradientScaleStrategy, Parallel, balance, data_parallel


def trained() -> tuple[fluid.Program, str]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        hidden = fluid.layers.fc(x, 8, act="relu")
        loss = fluid.layers.mean(fluid.layers.fc(hidden, 1))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, loss.name


def types(program: fluid.Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_gradients_are_exchanged_where_they_are_ready() -> None:
    program, loss = trained()
    before = types(program)
    found = data_parallel(program, Parallel(2, loss))
    assert found.gradients == found.exchanges == 4
    ops = program.global_block().ops
    assert [op.type for op in ops if op.type != "allreduce"] == before
    for index, op in enumerate(ops):
        if op.type == "allreduce":
            (name,) = op.input("X")
            assert op.output("Out") == [name]
            assert name in ops[index - 1].output_arg_names or ops[index - 1].type == "allreduce"


def test_loss_gradient_is_scaled() -> None:
    program, loss = trained()
    for scale, expected in (
        (GradientScaleStrategy.CoeffNumDevice, 0.25),
        (GradientScaleStrategy.One, 1.0),
    ):
        copy = program.clone()
        data_parallel(copy, Parallel(4, loss, scale=scale))
        ops = copy.global_block().ops
        (fill,) = [op for op in ops if f"{loss}@GRAD" in op.output_arg_names]
        assert fill.attr("value") == expected


def test_buckets_hold_neighbours_until_they_are_filled() -> None:
    program, loss = trained()
    one, small, few = program.clone(), program.clone(), program.clone()
    assert data_parallel(one, Parallel(2, loss, bucket_bytes=1 << 20)).exchanges == 1
    assert types(one).count("fused_all_reduce") == 1
    found = data_parallel(small, Parallel(2, loss, bucket_bytes=30))
    assert found.exchanges == 3  # 4 + 32 bytes, then 32 and 128 alone
    mixed = program.clone()
    params = mixed.all_parameters()
    for one in params[::2]:
        mixed.global_block().var(f"{one.name}@GRAD").dtype = VarType.FP16
    found = data_parallel(mixed, Parallel(2, loss, bucket_bytes=1 << 20))
    assert found.exchanges == 2  # one for each type
    found = data_parallel(few, Parallel(2, loss, bucket_bytes=1 << 20, bucket_count=3))
    assert found.exchanges == 2


def test_each_replica_updates_its_own_parameters() -> None:
    program, loss = trained()
    owners = balance(program.global_block(), 2)
    assert sorted(owners.values()) == [0, 1, 1, 1]
    updates = []
    for rank in range(2):
        copy = program.clone()
        data_parallel(copy, Parallel(2, loss, rank, owned=True))
        ops = copy.global_block().ops
        updates.append({op.input("Param")[0] for op in ops if op.type == "sgd"})
        assert ops[-1].type == "replica_barrier"
    assert updates[0] | updates[1] == set(owners)
    assert not updates[0] & updates[1]
