"""Replicas on GPUs: on one of them twice, and on all there are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.fluid.contrib.mixed_precision import decorate
from tests.fluid.mixed_networks import Training, batches, conv_net, mlp, training

pytestmark = pytest.mark.gpu
Strategy = fluid.BuildStrategy


def momentum() -> Any:
    return fluid.optimizer.Momentum(0.05, 0.9)


def gpus(kind: str) -> list[Any]:
    """The first GPU twice, or all of them."""
    if kind == "one twice":
        return [fluid.CUDAPlace(0)] * 2
    if torch.cuda.device_count() < 2:
        pytest.skip("there is one CUDA device")
    return [fluid.CUDAPlace(number) for number in range(torch.cuda.device_count())]


def replicated(run: Training, places: list[Any], **options: Any) -> fluid.CompiledProgram:
    build = Strategy()
    for name, value in options.items():
        setattr(build, name, value)
    return fluid.CompiledProgram(run.main).with_data_parallel(run.loss.name, build, places=places)


@pytest.mark.parametrize("kind", ["one twice", "all"])
@pytest.mark.parametrize("reduce", list(Strategy.ReduceStrategy))
@pytest.mark.parametrize("fuse", [True, False])
def test_replicas_train_as_one(kind: str, reduce: Any, fuse: bool) -> None:
    places, feeds = gpus(kind), batches(5)
    alone = training(mlp, momentum, fluid.CUDAPlace(0))
    expected = alone.run(feeds)
    run = training(mlp, momentum, fluid.CUDAPlace(0))
    options = {"fuse_all_reduce_ops": fuse, "fuse_broadcast_ops": fuse}
    program = replicated(run, places, reduce_strategy=reduce, **options)
    np.testing.assert_allclose(run.run(feeds, program), expected, rtol=1e-4)
    for name, value in alone.parameters().items():
        np.testing.assert_allclose(run.parameters()[name], value, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", ["one twice", "all"])
def test_batch_norm_is_synchronised(kind: str) -> None:
    places, feeds = gpus(kind), batches(4)
    expected = training(conv_net, momentum, fluid.CUDAPlace(0)).run(feeds)
    run = training(conv_net, momentum, fluid.CUDAPlace(0))
    program = replicated(run, places, sync_batch_norm=True)
    np.testing.assert_allclose(run.run(feeds, program), expected, rtol=1e-2)


@pytest.mark.parametrize("kind", ["one twice", "all"])
def test_sparse_gradients_are_gathered(kind: str) -> None:
    def trained(places: list[Any]) -> Any:
        main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
        startup.random_seed = 2
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            ids = fluid.data("ids", [None, 1], "int64")
            rows = fluid.embedding(ids, [50, 4], is_sparse=True)
            loss = fluid.layers.mean(fluid.layers.square(rows))
            fluid.optimizer.SGD(1.0).minimize(loss)
        executor = fluid.Executor(fluid.CUDAPlace(0))
        executor.run(startup, scope=scope)
        program = fluid.CompiledProgram(main).with_data_parallel(loss.name, places=places)
        count = 4 * len(places)
        executor.run(program, {"ids": np.arange(count)[:, None] % 7}, [loss], scope=scope)
        alone = np.array(scope.find_var("embedding_0.w_0").get_tensor())
        return alone[7:], len(np.unique(alone[:7], axis=0))

    untouched, distinct = trained(gpus(kind))
    same, _ = trained([fluid.CUDAPlace(0)])
    np.testing.assert_array_equal(untouched, same)
    assert distinct == 7


def test_mixed_precision_in_replicas() -> None:
    feeds = batches(5)
    expected = training(mlp, lambda: decorate(momentum()), fluid.CUDAPlace(0)).run(feeds)
    run = training(mlp, lambda: decorate(momentum()), fluid.CUDAPlace(0))
    found = run.run(feeds, replicated(run, gpus("one twice")))
    np.testing.assert_allclose(found, expected, rtol=1e-2)
