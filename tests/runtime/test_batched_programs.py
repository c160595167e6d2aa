"""What programs and strategies ask for is the same in batched replicas and in threads."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.runtime.replica_training import (
    ROWS,
    SCALES,
    STEPS,
    Training,
    agree,
    in_threads_only,
    mlp,
    normalised,
    sparse,
)

layers = fluid.layers


def _compared(*arguments: Any, **options: Any) -> tuple[Training, Training]:
    """A training in threads and one that batches, whose losses agree."""
    with in_threads_only():
        other = Training(*arguments, **options)
        expected = other.steps(STEPS)
        assert not other.batched
    run = Training(*arguments, **options)
    agree(run.steps(STEPS), expected)
    agree([run.parameters()], [other.parameters()])
    return run, other


RATES: dict[str, Callable[[], Any]] = {
    "exponential": lambda: layers.exponential_decay(0.2, 2, 0.5, staircase=True),
    "piecewise": lambda: layers.piecewise_decay([2, 5], [0.3, 0.1, 0.01]),
    "noam": lambda: layers.noam_decay(8, 3),
    "warmup": lambda: layers.linear_lr_warmup(0.2, 4, 0.0, 0.2),
}
CLIPS: dict[str, Callable[[], Any]] = {
    "global": lambda: fluid.clip.GradientClipByGlobalNorm(0.05),
    "norm": lambda: fluid.clip.GradientClipByNorm(0.02),
    "value": lambda: fluid.clip.GradientClipByValue(0.004),
}


@pytest.mark.parametrize("rate", RATES)
def test_learning_rate_schedules(rate: str) -> None:
    run, _ = _compared(mlp, lambda: fluid.optimizer.Momentum(RATES[rate](), 0.9))
    assert run.batched


@pytest.mark.parametrize("network", [mlp, sparse])
@pytest.mark.parametrize("clip", CLIPS)
def test_clipped_gradients(clip: str, network: Callable[[], Any]) -> None:
    run, _ = _compared(network, lambda: fluid.optimizer.SGD(0.5, grad_clip=CLIPS[clip]()))
    assert run.batched


def test_half_precision() -> None:
    def decorated() -> Any:
        momentum = fluid.optimizer.Momentum(0.1, 0.9)
        return fluid.contrib.mixed_precision.decorate(
            momentum, init_loss_scaling=8.0, use_dynamic_loss_scaling=True
        )

    with in_threads_only():
        expected = Training(mlp, decorated).steps()
    run = Training(mlp, decorated)
    for (loss, _), (other, _) in zip(run.steps(), expected, strict=True):
        np.testing.assert_allclose(loss, other, rtol=1e-2)
    assert run.batched


@pytest.mark.parametrize("scale", ["CoeffNumDevice", "One", "Customized"])
def test_gradient_scales(scale: str) -> None:
    def strategy() -> fluid.BuildStrategy:
        made = fluid.BuildStrategy()
        made.gradient_scale_strategy = getattr(SCALES, scale)
        return made

    with in_threads_only():
        expected = Training(strategy=strategy()).steps()
    run = Training(strategy=strategy())
    agree(run.steps(), expected)
    assert run.batched


def test_statistics_of_batch_norm_are_those_of_each_replica() -> None:
    run, other = _compared(normalised)
    names = [v.name for v in run.main.list_vars() if v.persistable and ".w_" in v.name]
    moving = [name for name in names if "batch_norm" in name]
    for name in moving:
        agree(
            [[run.value(name, 0), run.value(name, 1)]],
            [[other.value(name, 0), other.value(name, 1)]],
        )
    means = [name for name in moving if not np.array_equal(run.value(name, 0), run.value(name, 1))]
    assert run.batched
    assert len(means) >= 2


def test_synchronised_statistics() -> None:
    strategies = [fluid.BuildStrategy(), fluid.BuildStrategy()]
    for strategy in strategies:
        strategy.sync_batch_norm = True
    with in_threads_only():
        expected = Training(normalised, strategy=strategies[0]).steps()
    agree(Training(normalised, strategy=strategies[1]).steps(), expected)


@pytest.mark.parametrize("seed", [0, 5])
def test_dropout_with_a_seed_is_repeated(seed: int) -> None:
    def dropped() -> Any:
        hidden = layers.fc(fluid.data("x", [None, 6]), 64) * 0.0 + 1.0
        return layers.fc(layers.dropout(hidden, 0.5, seed=seed), 5)

    run = Training(dropped, seed=5)
    outs = [out for _, out in run.steps(12)]
    again = [out for _, out in Training(dropped, seed=5).steps(12)]
    assert run.batched
    agree([outs], [again])


def test_several_steps_of_one_run() -> None:
    run, _ = _compared(mlp, "momentum", iterations=3)
    assert run.batched


def test_replicas_that_share_variables() -> None:
    def train() -> tuple[Training, list[Any]]:
        run = Training(normalised, "momentum")
        losses = [run.step(0)]
        tests = fluid.CompiledProgram(run.test).with_data_parallel(
            share_vars_from=run.program, places=fluid.cpu_places(2)
        )
        for seed in range(1, 2 * STEPS):
            losses.append(run.step(seed))
            feed = run.feed(seed)
            losses.append(run.executor.run(tests, feed, [run.loss, run.out], scope=run.scope))
        return run, losses

    with in_threads_only():
        _, expected = train()
    run, losses = train()
    agree(losses, expected)
    assert run.batched


def test_feeds_of_several_dimensions_and_kinds() -> None:
    def network() -> Any:
        image = fluid.data("x", [None, 6])
        extra = fluid.data("extra", [None, 2, 3])
        return layers.fc(image + layers.reshape(extra, [-1, 6]), 5)

    def train() -> list[Any]:
        run = Training(network)
        found = []
        for seed in range(STEPS):
            extra = np.random.RandomState(seed).randn(ROWS, 2, 3).astype("f4")
            kinds: list[Any] = [
                extra,
                fluid.create_lod_tensor(extra, [], fluid.CPUPlace()),
                extra[::-1][::-1],
            ]
            found.append(run.run(run.feed(seed) | {"extra": kinds[seed % 3]}))
        assert run.batched == (not threads)
        return found

    threads = True
    with in_threads_only():
        expected = train()
    threads = False
    agree(train(), expected)


@pytest.mark.parametrize("overwrite", [True, False])
def test_kernels_that_overwrite_what_they_are_given(
    overwrite: bool, capfd: pytest.CaptureFixture[str]
) -> None:
    """Whether torch has a rule for many of them or not; it warns of none."""

    def scattered() -> Any:
        loss = mlp()
        hidden = loss.block.var("fc_0.tmp_2")
        rows = layers.assign(np.array([1, 0], "int64"))
        updates = layers.fill_constant([2, 16], "float32", 0.5)
        moved = layers.scatter(hidden, rows, updates, overwrite=overwrite)
        return loss + layers.reduce_mean(layers.square(moved))

    _compared(scattered, lambda: fluid.optimizer.SGD(0.1))
    assert "performance drop" not in capfd.readouterr().err


def test_tables_that_replicas_have_of_their_own() -> None:
    """As those that RMSProp updates beside weights that an operator hands on."""

    def network() -> Any:
        ids = fluid.data("ids", [None, 1], "int64")
        cost = layers.hsigmoid(layers.fc(fluid.data("x", [None, 6]), 4), ids, 20, is_sparse=True)
        return layers.elementwise_mul(sparse(), layers.expand(cost, [1, 5]))

    run, _ = _compared(network, lambda: fluid.optimizer.RMSProp(0.01))
    assert run.batched
