"""The program that each replica runs."""

from refluid import fluid
from refluid.passes.data_parallel import GradientScale, Parallel, balance, data_parallel


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
    found = data_parallel(program, Parallel(2, loss), 0)
    assert found.gradients == found.exchanges == 4
    assert types(program) == before
    ops = found.program.global_block().ops
    for index, op in enumerate(ops):
        if op.type == "allreduce":
            (name,) = op.input("X")
            assert op.output("Out") == [name]
            assert name in ops[index - 1].output_arg_names or ops[index - 1].type == "allreduce"


def test_loss_gradient_is_scaled() -> None:
    program, loss = trained()
    for scale, expected in ((GradientScale.COEFF_NUM_DEVICE, 0.25), (GradientScale.ONE, 1.0)):
        ops = data_parallel(program, Parallel(4, loss, scale), 0).program.global_block().ops
        (fill,) = [op for op in ops if f"{loss}@GRAD" in op.output_arg_names]
        assert fill.attr("value") == expected


def test_buckets_hold_neighbours_up_to_their_size() -> None:
    program, loss = trained()
    one = data_parallel(program, Parallel(2, loss, bucket_bytes=1 << 20), 0)
    assert one.exchanges == 1
    assert types(one.program).count("fused_all_reduce") == 1
    small = data_parallel(program, Parallel(2, loss, bucket_bytes=40), 0)
    assert small.exchanges == 3  # 4 + 32 bytes, then 32 and 128 alone


def test_each_replica_updates_its_own_parameters() -> None:
    program, loss = trained()
    owners = balance(program.global_block(), 2)
    assert sorted(owners.values()) == [0, 1, 1, 1]
    updates = []
    for rank in range(2):
        parallel = Parallel(2, loss, owners=owners)
        ops = data_parallel(program, parallel, rank).program.global_block().ops
        updates.append({op.input("Param")[0] for op in ops if op.type == "sgd"})
        assert ops[-1].type == "replica_barrier"
    assert updates[0] | updates[1] == set(owners)
    assert not updates[0] & updates[1]
