"""Training in mixed precision: losses, the loss scale, skipped updates."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core import flags
from refluid.fluid.contrib.mixed_precision import AutoMixedPrecisionLists, decorate, decorator
from refluid.paddle.static import amp
from refluid.passes import half_on_cpu
from tests.fluid.mixed_networks import Training, batches, conv_net, mlp, training, transformer
from tests.passes.rewriting import passed

NETWORKS = [mlp, conv_net, transformer]


def adam() -> Any:
    return fluid.optimizer.Adam(1e-3)


def sgd() -> Any:
    return fluid.optimizer.SGD(0.1)


@pytest.mark.parametrize("network", NETWORKS)
def test_losses_are_those_of_float32(network: Any) -> None:
    feeds = batches(30)
    full = training(network, adam).run(feeds)
    half = training(network, lambda: decorate(adam())).run(feeds)
    assert full[-1] < 0.8 * full[0]
    np.testing.assert_allclose(half, full, rtol=1e-2)
    assert half != full


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_losses_on_a_gpu(network: Any, dtype: str) -> None:
    feeds = batches(30)
    place = fluid.CUDAPlace(0)  # whose random numbers are others than a CPU's
    full = training(network, adam, place).run(feeds)
    half = training(network, lambda: amp.decorate(adam(), dtype=dtype), place).run(feeds)
    np.testing.assert_allclose(half, full, rtol=1e-2)


def test_parameters_and_moments_stay_float32() -> None:
    run = training(mlp, lambda: decorate(adam()))
    run.run(batches(2))
    kept = [var.name for var in run.main.list_vars() if var.persistable]
    assert {run.value(name).dtype.name for name in kept} <= {"float32", "int32"}


def test_cpu_says_once_that_it_uses_bfloat16(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(half_on_cpu, "_told", set())
    with caplog.at_level(logging.WARNING, "refluid"):
        for _ in range(2):
            training(mlp, lambda: decorate(sgd())).run(batches(1))
    assert [record.message for record in caplog.records if "bfloat16" in record.message] == [
        caplog.records[0].message
    ]


def test_half_fetches_are_float32() -> None:
    run = training(mlp, lambda: decorate(sgd()))
    (found,) = run.executor.run(
        run.main, feed=batches(1)[0], fetch_list=["fc_0.tmp_0"], scope=run.scope
    )
    assert found.dtype == np.float32


# -- the loss scale -----------------------------------------------------------------


def scaled(**options: Any) -> Training:
    make = {"init_loss_scaling": 8.0, "incr_every_n_steps": 2, **options}
    return training(mlp, lambda: decorate(fluid.optimizer.Momentum(0.1, 0.9), **make))


def overflow() -> dict[str, Any]:
    feed = batches(1)[0]
    return {"image": feed["image"] * np.inf, "label": feed["label"]}


def scale_of(run: Training) -> float:
    return float(run.value(run.optimizer.get_loss_scaling()).item())


def test_scale_grows_after_finite_steps() -> None:
    run = scaled(incr_ratio=4.0)
    feeds = batches(5)
    found = []
    for feed in feeds:
        run.run([feed])
        found.append(scale_of(run))
    assert found == [8.0, 32.0, 32.0, 128.0, 128.0]


def test_scale_shrinks_after_overflows_in_a_row() -> None:
    run = scaled(decr_every_n_nan_or_inf=2, decr_ratio=0.5, incr_every_n_steps=100)
    found = []
    for feed in [overflow(), batches(1)[0], overflow(), overflow(), overflow()]:
        run.run([feed])
        found.append(scale_of(run))
    assert found == [8.0, 8.0, 8.0, 4.0, 4.0]


def with_state(kind: str) -> Any:
    decay = fluid.regularizer.L2Decay(0.01)
    clip = fluid.clip.GradientClipByGlobalNorm(1.0)
    kinds = {
        "sgd": lambda: fluid.optimizer.SGD(0.1, regularization=decay),
        "momentum": lambda: fluid.optimizer.Momentum(0.1, 0.9, regularization=decay),
        "adam": lambda: fluid.optimizer.Adam(1e-3, grad_clip=clip),
    }
    return kinds[kind]()


def everything(run: Training) -> dict[str, Any]:
    """All persistable values but those of the loss scale."""
    scale = [var.name for var in run.optimizer._made()]
    kept = [var.name for var in run.main.list_vars() if var.persistable and var.name not in scale]
    return {name: run.value(name) for name in kept}


@pytest.mark.parametrize("dynamic", [True, False])
@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
@pytest.mark.parametrize("bad", [np.inf, np.nan])
def test_overflow_changes_nothing(dynamic: bool, kind: str, bad: float) -> None:
    """Neither parameters nor moments: the step is skipped, bit by bit."""
    run = training(mlp, lambda: decorate(with_state(kind), use_dynamic_loss_scaling=dynamic))
    run.run(batches(2))
    before = everything(run)
    feed = batches(1)[0]
    run.run([{**feed, "image": feed["image"] * bad}])
    for name, value in everything(run).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    run.run(batches(1))
    after = everything(run)
    assert all(np.isfinite(value).all() for value in after.values())
    assert any((value != before[name]).any() for name, value in after.items())


@pytest.mark.parametrize("reduce", [False, True])
def test_an_overflow_in_one_replica_skips_the_step_in_all(reduce: bool) -> None:
    run = training(mlp, lambda: decorate(with_state("momentum")))
    program = run.replicated(2, reduce=reduce)
    run.run(batches(2), program)
    before = everything(run)
    feed = batches(1)[0]
    feed["image"][-1] = np.inf
    run.run([feed], program)
    for name, value in everything(run).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    run.run(batches(1), program)
    assert any((value != before[name]).any() for name, value in everything(run).items())


def test_an_overflow_among_merged_gradients_skips_their_update() -> None:
    inner = decorate(with_state("adam"))
    run = training(mlp, lambda: fluid.optimizer.GradientMergeOptimizer(inner, 2))
    run.optimizer = inner
    run.run(batches(2))
    before = run.parameters()
    run.run([overflow(), *batches(1)])
    for name, value in run.parameters().items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    run.run(batches(2))
    assert all(np.isfinite(value).all() for value in run.parameters().values())
    assert any((value != before[name]).any() for name, value in run.parameters().items())


def test_biases_that_were_cast_are_fused() -> None:
    run = training(conv_net, lambda: decorate(sgd()))
    done = passed(run.main, "fuse_conv_bias", "fuse_gemm_bias")
    assert len(done.reports["fuse_conv_bias"].made) == 2
    assert len(done.reports["fuse_gemm_bias"].made) == 2
    assert "elementwise_add" not in {op.type for op in done.program.global_block().ops}
    feeds = batches(3)
    plain = training(conv_net, lambda: decorate(sgd()))
    with flags.override({"FLAGS_check_nan_inf": True}):  # which leaves fusions out
        expected = plain.run(feeds)
    np.testing.assert_allclose(run.run(feeds), expected, rtol=1e-2)


def test_static_scale_stays() -> None:
    run = scaled(use_dynamic_loss_scaling=False)
    run.run([*batches(4), overflow(), overflow()])
    assert scale_of(run) == 8.0


def test_scaled_loss() -> None:
    run = training(mlp, lambda: decorate(sgd(), init_loss_scaling=16.0))
    loss, found = run.executor.run(
        run.main,
        feed=batches(1)[0],
        fetch_list=[run.loss, run.optimizer.get_scaled_loss()],
        scope=run.scope,
    )
    assert found == loss * 16


def test_scale_is_made_by_minimize() -> None:
    optimizer = decorate(sgd())
    assert optimizer.get_scaled_loss() is None
    with pytest.raises(RuntimeError, match="minimize"):
        optimizer.get_loss_scaling()
    with pytest.raises(ValueError, match="positive"):
        decorate(sgd(), init_loss_scaling=0)


# -- with others --------------------------------------------------------------------


def test_replicas_train_as_one() -> None:
    feeds = batches(6)
    alone = training(mlp, lambda: decorate(sgd()))
    alone.run(feeds)
    together = training(mlp, lambda: decorate(sgd()))
    together.run(feeds, together.replicated(2))
    found = together.parameters()
    for name, value in alone.parameters().items():
        np.testing.assert_allclose(found[name], value, atol=1e-2)


def test_clip_sees_true_gradients() -> None:
    def make() -> Any:
        return fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.1))

    feeds = batches(5)
    full = training(mlp, make)
    full.run(feeds)
    half = training(mlp, lambda: decorate(make()))
    half.run(feeds)
    for name, value in half.parameters().items():
        np.testing.assert_allclose(value, full.parameters()[name], atol=1e-3)


def test_recompute_inside() -> None:
    feeds = batches(3)

    def recomputing() -> Any:
        inner = fluid.optimizer.RecomputeOptimizer(sgd())
        inner._set_checkpoints(["fc_0.tmp_2"])
        return decorate(inner)

    plain = training(mlp, lambda: decorate(sgd())).run(feeds)
    np.testing.assert_allclose(training(mlp, recomputing).run(feeds), plain, rtol=1e-6)


def test_test_program_is_mixed_too() -> None:
    run = training(conv_net, lambda: decorate(sgd()))
    test = run.main.clone(for_test=True)
    assert not {"check_finite_and_unscale", "update_loss_scaling"} & {
        op.type for op in test.global_block().ops
    }
    assert np.isfinite(run.run(batches(1), test)).all()


@pytest.mark.parametrize(
    ("options", "kinds"),
    [({"dtype": "bfloat16"}, "VarType.BF16"), ({}, "VarType.FP16"), ({"level": "O0"}, None)],
)
def test_static_amp(options: Any, kinds: str | None) -> None:
    run = training(mlp, lambda: amp.decorate(sgd(), **options))
    halves = {str(var.dtype) for var in run.main.list_vars()} & {"VarType.BF16", "VarType.FP16"}
    assert halves == ({kinds} if kinds else set())
    assert scale_of(run) == (1.0 if options.get("dtype") else 2.0**15)
    with pytest.raises(ValueError, match="level"):
        amp.decorate(sgd(), level="O2")
    with pytest.raises(ValueError, match="bfloat16"):
        amp.decorate(sgd(), dtype="float32")


def test_black_variables() -> None:
    lists = AutoMixedPrecisionLists(custom_black_varnames={"image"})
    run = training(mlp, lambda: decorate(sgd(), lists))
    assert "image.cast_fp16" not in run.main.global_block().vars


def test_the_class_has_its_former_name_too() -> None:
    assert decorator.OptimizerWithMixedPrecison is decorator.OptimizerWithMixedPrecision
