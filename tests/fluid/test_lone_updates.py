"""Reduce mode where something beside the updates uses what they write: the numbers of one place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.engine import conditions, replicated
from refluid.engine.lone_updates import in_the_way

L, Optimizers = fluid.layers, fluid.optimizer
Minimize = Callable[[Any], None]


def decayed(loss: Any) -> None:
    by_decay = fluid.contrib.extend_optimizer.extend_with_decoupled_weight_decay
    by_decay(Optimizers.Momentum)(0.3, learning_rate=0.1, momentum=0.9).minimize(loss)


def moving(loss: Any) -> None:
    Optimizers.SGD(0.3).minimize(loss)
    Optimizers.ExponentialMovingAverage(0.5).update()


def averaged(loss: Any) -> None:
    Optimizers.SGD(0.3).minimize(loss)
    Optimizers.ModelAverage(0.5, min_average_window=2, max_average_window=6)


def ahead(loss: Any) -> None:
    Optimizers.LookaheadOptimizer(Optimizers.SGD(0.3), 0.5, 3).minimize(loss)


def scaled(loss: Any) -> None:
    Optimizers.SGD(0.3).minimize(loss)
    for param in fluid.default_main_program().all_parameters():
        L.assign(L.scale(param, 0.9), param)


def entangled(loss: Any) -> None:
    """The update of one parameter depends on another parameter."""
    optimizer = Optimizers.SGD(0.3)
    pairs = optimizer.backward(loss)
    with fluid.default_main_program()._optimized_guard(list(pairs[0])):
        size = L.reduce_sum(L.square(pairs[1][0]))
        pairs = [(param, L.elementwise_add(grad, size)) for param, grad in pairs]
    optimizer.apply_gradients(pairs)


def plain(loss: Any) -> None:
    Optimizers.Momentum(
        L.piecewise_decay([3], [0.1, 0.01]),
        0.9,
        regularization=fluid.regularizer.L2Decay(0.1),
        grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5),
    ).minimize(loss)


IN_THE_WAY = [decayed, moving, averaged, ahead, scaled, entangled]


def network(minimize: Minimize) -> tuple[Any, Any, Any]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.data("x", [None, 5])
        for number in range(3):
            draw = fluid.initializer.Uniform(-0.5, 0.5, seed=number + 1)
            hidden = L.fc(hidden, 5, act="tanh", param_attr=draw)
        loss = L.mean(L.square(L.reduce_mean(hidden, 1)))
        minimize(loss)
    return main, startup, loss


def trained(minimize: Minimize, threads: int | None) -> dict[str, Any]:
    """What outlives six steps, of one place, or of two replicas of so many threads in all."""
    main, startup, loss = network(minimize)
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    program = main
    if threads is not None:
        build, execution = fluid.BuildStrategy(), fluid.ExecutionStrategy()
        build.reduce_strategy = build.ReduceStrategy.Reduce
        execution.num_threads = threads
        program = fluid.CompiledProgram(main).with_data_parallel(
            loss.name, build, execution, places=fluid.cpu_places(2)
        )
    exe.run(startup, scope=scope)
    draw = np.random.RandomState(3)
    for _ in range(6):
        exe.run(program, {"x": draw.rand(8, 5).astype("float32")}, [loss], scope=scope)
    kept = [var.name for var in main.list_vars() if var.persistable]
    return {name: np.array(scope.find_var(name).get_tensor()) for name in kept}


def equal(found: dict[str, Any], expected: dict[str, Any]) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("minimize", [*IN_THE_WAY, plain])
def test_replicas_train_as_one_place(minimize: Minimize, threads: int) -> None:
    equal(trained(minimize, threads), trained(minimize, None))


@pytest.mark.parametrize("minimize", [*IN_THE_WAY, plain])
def test_so_do_those_with_their_own_parameters(
    minimize: Minimize, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on GPUs, where owners send what they updated before anything else uses it."""
    for module in (conditions, replicated):
        monkeypatch.setattr(module, "shares_parameters", lambda strategy, devices: False)
    equal(trained(minimize, 4), trained(minimize, None))


@pytest.mark.parametrize("minimize", IN_THE_WAY)
def test_what_is_in_the_way_is_found(minimize: Minimize) -> None:
    main, _, _ = network(minimize)
    found = in_the_way(main)
    assert found is not None
    assert found[1] in {param.name for param in main.all_parameters()}


def test_updates_alone_are_not() -> None:
    assert in_the_way(network(plain)[0]) is None
    assert in_the_way(network(lambda loss: None)[0]) is None


def test_the_log_names_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    def halved(loss: Any) -> None:
        Optimizers.SGD(0.3).minimize(loss)
        weight = fluid.default_main_program().all_parameters()[0]
        L.assign(L.scale(weight, 0.25), weight)

    trained(halved, 2)
    (said,) = [line for line in caplog.messages if "operator scale uses 'fc_0.w_0'" in line]
    assert "L.scale(weight, 0.25)" in said
