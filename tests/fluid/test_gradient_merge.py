"""Small batches merged train as the big batch does."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.analysis.verifier import verify
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.fluid.optimizer import GradientMergeOptimizer
from refluid.passes.gradient_merge import GradientMerge, gradient_merge
from tests.fluid.mixed_networks import batches, mlp, training

BIG = batches(4, 32)
SMALL = [
    {name: value[start : start + 8] for name, value in feed.items()}
    for feed in BIG
    for start in range(0, 32, 8)
]


def sgd() -> Any:
    return fluid.optimizer.SGD(0.1)


def scheduled() -> Any:
    """What must act once per update: a schedule, decay, clipping by the norm of all gradients."""
    return fluid.optimizer.Adam(
        fluid.layers.exponential_decay(1e-2, 1, 0.5, staircase=True),
        regularization=fluid.regularizer.L2Decay(1e-2),
        grad_clip=fluid.clip.GradientClipByGlobalNorm(0.3),
    )


def recomputing() -> Any:
    optimizer = fluid.optimizer.RecomputeOptimizer(sgd())
    optimizer._set_checkpoints(["fc_0.tmp_2"])
    return optimizer


def agree(found: dict[str, Any], expected: dict[str, Any], tolerance: float = 1e-6) -> None:
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=tolerance, err_msg=name)


@pytest.mark.parametrize("make", [sgd, scheduled, recomputing])
def test_merged_batches_equal_the_big_one(make: Any) -> None:
    big = training(mlp, make)
    big.run(BIG)
    small = training(mlp, lambda: GradientMergeOptimizer(make(), 4))
    assert verify(small.main) == []
    small.run(SMALL)
    agree(small.parameters(), big.parameters(), 2e-6)


def test_a_schedule_without_its_mark_counts_updates() -> None:
    """Scripts compute learning rates as they compute anything else: a part of the forward pass."""

    def trained(merge: int) -> Any:
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        main.random_seed = startup.random_seed = 4
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            loss = fluid.layers.mean(
                fluid.layers.square(fluid.layers.fc(fluid.data("x", [None, 4]), 1))
            )
            step = fluid.layers.autoincreased_step_counter()
            rate = 0.1 / fluid.layers.cast(step, "float32")
            GradientMergeOptimizer(fluid.optimizer.SGD(rate), merge).minimize(loss)
        executor = fluid.Executor()
        executor.run(startup, scope=scope)
        data = np.random.RandomState(1).randn(24, 4).astype("float32")
        for part in np.split(data, 3 * merge):
            executor.run(main, {"x": part}, scope=scope)
        assert np.array(scope.find_var("@STEP_COUNTER@").get_tensor()).tolist() == [3]
        return {one.name: scope.find_var(one.name).get_tensor() for one in main.all_parameters()}

    agree(trained(4), trained(1))


def test_parameters_move_every_kth_run() -> None:
    run = training(mlp, lambda: GradientMergeOptimizer(sgd(), 3))
    before = run.parameters()
    moved = []
    for feed in SMALL[:6]:
        run.run([feed])
        now = run.parameters()
        moved.append(any((now[name] != before[name]).any() for name in now))
        before = now
    assert moved == [False, False, True, False, False, True]


def test_sum_is_k_times_the_mean() -> None:
    mean = training(mlp, lambda: GradientMergeOptimizer(fluid.optimizer.SGD(0.4), 4))
    total = training(mlp, lambda: GradientMergeOptimizer(sgd(), 4, avg=False))
    for run in (mean, total):
        run.run(SMALL)
    agree(total.parameters(), mean.parameters())


def test_replicas_exchange_once_per_update() -> None:
    alone = training(mlp, sgd)
    alone.run(BIG)
    run = training(mlp, lambda: GradientMergeOptimizer(sgd(), 4))
    run.run(SMALL, run.replicated(2))
    agree(run.parameters(), alone.parameters())


@pytest.mark.parametrize("reduce", [False, True])
def test_exchange_stands_in_the_branch(reduce: bool) -> None:
    run = training(mlp, lambda: GradientMergeOptimizer(sgd(), 2))
    strategy = fluid.BuildStrategy()
    if reduce:
        strategy.reduce_strategy = fluid.BuildStrategy.ReduceStrategy.Reduce
    program = fluid.CompiledProgram(run.main).with_data_parallel(
        run.loss.name, build_strategy=strategy, places=[fluid.CPUPlace()] * 2
    )
    run.run(SMALL[:4], program)
    plain = training(mlp, lambda: GradientMergeOptimizer(sgd(), 2))
    plain.run(SMALL[:4])
    agree(run.parameters(), plain.parameters())


def test_mixed_precision_inside() -> None:
    big = training(mlp, sgd)
    big.run(BIG)
    run = training(mlp, lambda: GradientMergeOptimizer(decorate(sgd()), 4))
    run.run(SMALL)
    agree(run.parameters(), big.parameters(), 1e-2)


def test_sparse_gradients_are_merged() -> None:
    ids = np.arange(24).reshape(8, 3) % 7

    def trained(merge: int) -> Any:
        main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = 1
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            words = fluid.data("words", [None, 3], "int64")
            rows = fluid.embedding(words, [7, 4], is_sparse=True)
            loss = fluid.layers.mean(fluid.layers.square(rows))
            GradientMergeOptimizer(sgd(), merge).minimize(loss)
        executor, scope = fluid.Executor(), fluid.Scope()
        executor.run(startup, scope=scope)
        for part in np.split(ids, merge):
            executor.run(main, feed={"words": part}, scope=scope)
        return np.array(scope.find_var("embedding_0.w_0").get_tensor())

    np.testing.assert_allclose(trained(4), trained(1), rtol=1e-6)


def test_what_the_pass_makes() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
        sgd().minimize(loss)
    before = str(main)
    merged, started = main.clone(), startup.clone()
    gradient_merge(merged, GradientMerge(2, startup=started))
    assert str(main) == before
    assert [op.type for op in merged.global_block().ops][-4:] == [
        "increment",
        "fill_constant",
        "greater_equal",
        "conditional_block",
    ]
    inside = [op.type for op in merged.block(1).ops]
    assert inside == ["scale"] * 2 + ["sgd"] * 2 + ["fill_constant"] * 3
    assert len(started.global_block().ops) == len(startup.global_block().ops) + 3
    test = merged.clone(for_test=True)
    assert [op.type for op in test.global_block().ops] == ["mul", "elementwise_add", "mean"]


def test_a_learning_rate_can_be_fetched_before_the_first_update() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        loss = fluid.layers.mean(fluid.layers.fc(fluid.data("x", [None, 4]), 2))
        rate = fluid.layers.exponential_decay(0.5, 1, 0.5)
        rate.persistable = True
        GradientMergeOptimizer(fluid.optimizer.SGD(rate), 2).minimize(loss)
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)
    x = np.ones((2, 4), "float32")
    found = [executor.run(main, {"x": x}, [rate], scope=scope)[0][0] for _ in range(4)]
    assert found == [0.0, 0.5, 0.5, 0.25]


def test_inputs_without_gradient_are_left_out() -> None:
    """Where one of several inputs wants none, its gradient has the empty name."""

    def trained(merge: int) -> Any:
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        main.random_seed = startup.random_seed = 4
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 4])
            joined = fluid.layers.concat([x, fluid.layers.fc(x, 3)], axis=1)
            loss = fluid.layers.mean(fluid.layers.square(fluid.layers.fc(joined, 1)))
            GradientMergeOptimizer(sgd(), merge).minimize(loss)
        names = [name for op in main.global_block().ops for name in op.output_arg_names]
        assert "@EMPTY@" in names
        executor = fluid.Executor()
        executor.run(startup, scope=scope)
        data = np.random.RandomState(1).randn(8, 4).astype("float32")
        for part in np.split(data, merge):
            executor.run(main, {"x": part}, scope=scope)
        return {one.name: scope.find_var(one.name).get_tensor() for one in main.all_parameters()}

    agree(trained(2), trained(1))


def test_a_number_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="1 or more"):
        GradientMergeOptimizer(sgd(), 0)


CLIPS = {
    "none": lambda: None,
    "value": lambda: fluid.clip.GradientClipByValue(0.01),
    "norm": lambda: fluid.clip.GradientClipByNorm(0.05),
    "global norm": lambda: fluid.clip.GradientClipByGlobalNorm(0.1),
}


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("clip", CLIPS)
@pytest.mark.parametrize("kind", [fluid.optimizer.SGD, fluid.optimizer.Adam])
def test_rows_of_gradients_are_merged_as_dense_ones(kind: Any, clip: str, decay: float) -> None:
    """Two tables, of which one is looked up twice, so that rows come twice in a batch."""

    def trained(is_sparse: bool) -> dict[str, Any]:
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        main.random_seed = startup.random_seed = 4
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            ids, y = fluid.data("ids", [None, 3], "int64"), fluid.data("y", [None, 1])
            looked_up = [
                fluid.embedding(ids, [20, 4], is_sparse=is_sparse, param_attr=table)
                for table in ("a", "b", "b")
            ]
            hidden = fluid.layers.reduce_sum(fluid.layers.concat(looked_up, 2), 1)
            error = fluid.layers.fc(hidden, 1) - y
            regularization = fluid.regularizer.L2Decay(decay) if decay else None
            made = kind(0.1, regularization=regularization, grad_clip=CLIPS[clip]())
            GradientMergeOptimizer(made, 2).minimize(
                fluid.layers.reduce_mean(fluid.layers.square(error))
            )
        executor, draws = fluid.Executor(), np.random.RandomState(3)
        executor.run(startup, scope=scope)
        for rows in (8, 5, 1, 7, 2, 2):
            feed = {"ids": draws.randint(0, 20, (rows, 3)), "y": draws.rand(rows, 1)}
            feed["y"] = feed["y"].astype("float32")
            executor.run(main, feed, scope=scope)
        names = [one.name for one in main.all_parameters()]
        return {name: np.array(scope.find_var(name).get_tensor()) for name in names}

    agree(trained(True), trained(False))
