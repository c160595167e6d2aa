"""Programs of `paddle.static`: the same as Fluid's, to the bit."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import optimizer as of_fluid
from refluid.paddle import nn, static
from refluid.paddle import optimizer as two
from refluid.paddle.framework.attributes import ParamAttr
from refluid.paddle.regularizer import L1Decay, L2Decay
from tests.paddle.two import networks

PAIRS: dict[str, tuple[Any, Any]] = {
    "sgd": (lambda: of_fluid.SGD(0.1), lambda: two.SGD(0.1)),
    "momentum": (
        lambda: of_fluid.Momentum(0.1, 0.9, regularization=fluid.regularizer.L2Decay(1e-2)),
        lambda: two.Momentum(0.1, 0.9, weight_decay=L2Decay(1e-2)),
    ),
    "decay": (
        lambda: of_fluid.SGD(0.1, regularization=fluid.regularizer.L2Decay(0.1)),
        lambda: two.SGD(0.1, weight_decay=0.1),
    ),
    "l1": (
        lambda: of_fluid.SGD(0.1, regularization=fluid.regularizer.L1Decay(0.1)),
        lambda: two.SGD(0.1, weight_decay=L1Decay(0.1)),
    ),
    "nesterov": (
        lambda: of_fluid.Momentum(0.1, 0.9, use_nesterov=True),
        lambda: two.Momentum(0.1, 0.9, use_nesterov=True),
    ),
    "lars": (lambda: of_fluid.LarsMomentum(0.1, 0.9), lambda: two.LarsMomentum(0.1, 0.9)),
    "adamax": (lambda: of_fluid.Adamax(0.01), lambda: two.Adamax(0.01)),
    "adagrad": (lambda: of_fluid.Adagrad(0.01), lambda: two.Adagrad(0.01)),
    "rmsprop": (lambda: of_fluid.RMSProp(0.01), lambda: two.RMSProp(0.01)),
    "clip by value": (
        lambda: of_fluid.SGD(0.1, grad_clip=fluid.clip.GradientClipByValue(0.01)),
        lambda: two.SGD(0.1, grad_clip=nn.ClipGradByValue(0.01)),
    ),
    "clip by norm": (
        lambda: of_fluid.SGD(0.1, grad_clip=fluid.clip.GradientClipByNorm(0.01)),
        lambda: two.SGD(0.1, grad_clip=nn.ClipGradByNorm(0.01)),
    ),
    "clip by global norm": (
        lambda: of_fluid.SGD(0.1, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.01)),
        lambda: two.SGD(0.1, grad_clip=nn.ClipGradByGlobalNorm(0.01)),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_losses_are_those_of_fluid(name: str) -> None:
    old, new = PAIRS[name]
    former = networks.losses(networks.of_fluid, old)
    assert networks.losses(networks.of_paddle, new) == former
    assert former[0] != former[-1]


def test_programs_are_those_of_fluid() -> None:
    texts = []
    for build, optimizer in zip(
        (networks.of_fluid, networks.of_paddle), PAIRS["adamax"], strict=True
    ):
        with networks.fresh() as (main, startup):
            optimizer().minimize(build())
            texts.append(re.sub(r"op_callstack=\[.*?\](?=[ }])", "", f"{main}{startup}"))
    assert "conv2d" in texts[0]
    assert texts[0] == texts[1]


def test_a_parameter_that_needs_no_clip_keeps_its_gradient() -> None:
    with networks.fresh() as (main, startup):
        x = static.data("x", [4, 3])
        free = ParamAttr(need_clip=False, initializer=nn.initializer.Constant(0.5))
        kept = ParamAttr(initializer=nn.initializer.Constant(0.5))
        loss = fluid.layers.mean(static.nn.fc(x, 1, weight_attr=free, bias_attr=kept))
        pairs = two.SGD(1.0, grad_clip=nn.ClipGradByValue(0.01)).minimize(loss)[1]
        exe = static.Executor("cpu")
        exe.run(startup)
        exe.run(main, feed={"x": np.ones((4, 3), "float32")})
        weight, bias = (
            np.asarray(static.global_scope().find_var(param.name).get_tensor())
            for param, _ in pairs
        )
    assert {round(float(one), 3) for one in weight.ravel()} == {-0.5}
    assert bias == pytest.approx(0.49)


def test_adamw_decays_apart_from_the_gradient() -> None:
    with networks.fresh() as (main, startup):
        x = static.data("x", [4, 3])
        attr = ParamAttr(name="w", initializer=nn.initializer.Constant(2.0))
        loss = fluid.layers.mean(static.nn.fc(x, 1, weight_attr=attr, bias_attr=False))
        two.AdamW(0.1, weight_decay=0.5).minimize(loss)
        exe = static.Executor("cpu")
        exe.run(startup)
        exe.run(main, feed={"x": np.zeros((4, 3), "float32")})
        weight = np.asarray(static.global_scope().find_var("w").get_tensor())
    assert weight == pytest.approx(2.0 * (1 - 0.1 * 0.5))


def test_models_for_inference(tmp_path: Path) -> None:
    batch = networks.batches(1)[0]
    with networks.fresh() as (main, startup):
        x = static.data("x", [None, 1, 6, 6], "float32")
        guess = static.nn.fc(x, 3, activation="softmax")
        exe = static.Executor("cpu")
        exe.run(startup)
        wanted = exe.run(main, feed={"x": batch["x"]}, fetch_list=[guess])[0]
        path = str(tmp_path / "models" / "net")
        static.save_inference_model(path, [x], [guess], exe, program=main)
        program = static.serialize_program([x], [guess], program=main)
        values = static.serialize_persistables([x], [guess], exe, program=main)
    with networks.fresh():
        exe = static.Executor("cpu")
        loaded, feeds, fetches = static.load_inference_model(path, exe)
        found = exe.run(loaded, feed={feeds[0]: batch["x"]}, fetch_list=fetches)[0]
    assert feeds == ["x"]
    assert np.array_equal(found, wanted)
    with networks.fresh():
        again = static.deserialize_program(program)
        static.deserialize_persistables(again, values, exe)
        assert np.array_equal(exe.run(again, {"x": batch["x"]}, fetches)[0], wanted)


def test_input_specs() -> None:
    spec = static.InputSpec([None, 3], "float32", "x")
    assert spec.shape == (-1, 3)
    assert spec.batch(4).shape == (4, -1, 3)
    assert spec.unbatch() == static.InputSpec([-1, 3], name="x")
    assert "name=x" in repr(spec)
    with pytest.raises(TypeError, match="int"):
        spec.batch("4")


def test_places_by_name() -> None:
    assert str(static.Executor("cpu").place) == "CPUPlace"
    with pytest.raises(ValueError, match="'tpu:0'"):
        static.Executor("tpu:0")


def test_sums_of_clicks_are_paddles() -> None:
    random = np.random.RandomState(0)
    with static.program_guard(static.Program(), static.Program()), fluid.unique_name.guard():
        x = static.data("x", [-1, 1])
        label = static.data("label", [-1, 1], "float32")
        sums = static.ctr_metric_bundle(nn.functional.sigmoid(x), label)
        with pytest.raises(NotImplementedError, match="counts all samples alike"):
            static.ctr_metric_bundle(x, label, label)
        exe = static.Executor()
        with static.scope_guard(static.Scope()):
            exe.run(static.default_startup_program())
            for _ in range(2):
                feed = {"x": random.randn(4, 1).astype("float32")}
                feed["label"] = random.randint(0, 2, (4, 1)).astype("float32")
                found = exe.run(feed=feed, fetch_list=[*sums])
    # Those of Paddle 2.6.2.
    wanted = [2.5211453, 4.1104755, 5.3419771, 5.2812886, 5.0, 8.0]
    np.testing.assert_allclose([one.item() for one in found], wanted, rtol=1e-6)
