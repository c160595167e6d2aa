"""Optimizers, clips and schedules have Fluid's signatures and say what is wrong with a call."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from typing import Any

import pytest

import refluid.fluid as fluid
from tests.golden import GOLDEN, needs_golden

MODULES = ["regularizer", "clip", "layers.learning_rate_scheduler", "optimizer"]
# Members of optimizers that act in dygraph mode only.
DYGRAPH = {"current_step_lr", "set_dict", "clear_gradients"}


def public() -> Iterator[tuple[str, str, str]]:
    """(module, name, signature) of all that is there, methods included."""
    if not GOLDEN.is_dir():
        return
    objects = json.loads((GOLDEN / "api_surface.json").read_text(encoding="utf-8"))["objects"]
    for full, facts in objects.items():
        for module in MODULES:
            name = full.removeprefix(f"paddle.fluid.{module}.")
            if name == full:
                continue
            yield module, name, facts["signature"]
            for member, method in facts.get("members", {}).items():
                if method.get("signature") and member not in DYGRAPH | {"__init__"}:
                    yield module, f"{name}.{member}", method["signature"]


@needs_golden
@pytest.mark.parametrize(("module", "name", "signature"), list(public()))
def test_signatures_are_fluids(module: str, name: str, signature: str) -> None:
    found: Any = importlib.import_module(f"refluid.fluid.{module}")
    for part in name.split("."):
        found = getattr(found, part)
    called = found.__init__ if inspect.isclass(found) and signature != "()" else found
    parameters = inspect.signature(called).parameters.values()
    plain = [one.replace(annotation=inspect.Parameter.empty) for one in parameters]
    assert str(inspect.Signature(plain)) == signature


@pytest.fixture
def loss() -> Iterator[Any]:
    with fluid.program_guard(fluid.Program(), fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [-1, 3])
        yield fluid.layers.mean(fluid.layers.fc(x, 2))


@pytest.mark.parametrize("rate", [1, "0.1", None])
def test_learning_rate_is_float_or_variable(rate: Any) -> None:
    with pytest.raises(TypeError, match="learning rate should be float or Variable"):
        fluid.optimizer.SGD(rate)


def test_grad_clip_is_checked() -> None:
    with pytest.raises(TypeError, match="'grad_clip' should be an instance"):
        fluid.optimizer.SGD(0.1, grad_clip=fluid.clip.ErrorClipByValue(1.0))


def test_the_loss_is_one_number(loss: Any) -> None:
    many = fluid.layers.fc(loss.block.var("x"), 2)
    with pytest.raises(AssertionError, match=r"fluid\.layers\.mean"):
        fluid.optimizer.SGD(0.1).minimize(many)
    with pytest.raises(AssertionError, match="should be an Variable"):
        fluid.optimizer.SGD(0.1).minimize("loss")


def test_an_optimizer_is_applied_once(loss: Any) -> None:
    adam = fluid.optimizer.Adam(0.1, name="main")
    adam.minimize(loss)
    assert sorted(adam.state_dict()) == sorted(adam.get_opti_var_name_list())
    assert "fc_0.w_0_main_moment1_0" in adam.state_dict()
    with pytest.raises(ValueError, match="already exists for parameter"):
        adam.minimize(loss)


def test_set_gradient_clip_checks_its_arguments(loss: Any) -> None:
    with pytest.warns(UserWarning), pytest.raises(TypeError, match="'clip' should be"):
        fluid.clip.set_gradient_clip(5.0)
    clip = fluid.clip.GradientClipByValue(1.0)
    with pytest.warns(UserWarning), pytest.raises(TypeError, match="'param_list' should be"):
        fluid.clip.set_gradient_clip(clip, param_list=[3])
    with pytest.warns(UserWarning):
        fluid.clip.set_gradient_clip(clip, param_list=["fc_0.w_0"])
    block = loss.block
    assert block.var("fc_0.w_0").gradient_clip_attr.max == 1.0
    assert block.var("fc_0.b_0").gradient_clip_attr is None


def test_set_gradient_clip_after_minimize_warns(loss: Any) -> None:
    fluid.optimizer.SGD(0.1).minimize(loss)
    with pytest.warns(UserWarning) as warned:
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0))
    assert any("'minimize' has been called before" in str(one.message) for one in warned)


def test_set_gradient_clip_in_dygraph_says_that_it_does_nothing() -> None:
    with fluid.dygraph.guard(), pytest.warns(UserWarning) as warned:
        fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(1.0))
    assert any("in dygraph it has no effect" in str(one.message) for one in warned)


def test_a_group_has_one_norm(loss: Any) -> None:
    clips = [fluid.clip.GradientClipByGlobalNorm(norm) for norm in (1.0, 2.0)]
    for clip, name in zip(clips, ("fc_0.w_0", "fc_0.b_0"), strict=True):
        with pytest.warns(UserWarning):
            fluid.clip.set_gradient_clip(clip, [name])
    with pytest.raises(ValueError, match="same clip_norm"):
        fluid.optimizer.SGD(0.1).minimize(loss)


def test_need_clip_is_a_function() -> None:
    with pytest.raises(TypeError, match="need_clip should be a function"):
        fluid.clip.GradientClipByNorm(1.0, need_clip=["fc_0.w_0"])


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (fluid.regularizer.L2Decay(0.1), "L2Decay, regularization_coeff=0.100000"),
        (fluid.regularizer.L1Decay(0.1), "L1Decay, regularization_coeff=0.100000"),
        (fluid.clip.GradientClipByNorm(2.0), "GradientClipByNorm, clip_norm=2.000000"),
        (fluid.clip.ErrorClipByValue(2.0), "ByValue, min=-2.000000, max=2.000000"),
    ],
)
def test_text(made: Any, text: str) -> None:
    assert str(made) == text


def test_lookahead_and_moving_averages_keep_their_state_under_fluids_names() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        weight = fluid.ParamAttr(name="w")
        out = fluid.layers.fc(fluid.data("x", [2, 3]), 2, param_attr=weight, bias_attr=False)
        inner = fluid.optimizer.SGD(0.1)
        fluid.optimizer.LookaheadOptimizer(inner, k=3).minimize(fluid.layers.mean(out))
        fluid.optimizer.ExponentialMovingAverage(0.9).update()
    kept = {var.name for var in main.list_vars() if var.persistable}
    assert kept == {
        "@EMA_STEP_COUNTER@",
        "learning_rate_0",
        "lookahead_alpha",
        "lookahead_k",
        "lookahead_step",
        "scheduled_ema_decay_rate",
        "w",
        "w@SLOW",
        "w_ema_0",
    }


def _nested(order: str) -> Any:
    optimizers = fluid.optimizer
    wrap: dict[str, Any] = {
        "recompute": optimizers.RecomputeOptimizer,
        "half": fluid.contrib.mixed_precision.decorate,
        "merge": lambda inner: optimizers.GradientMergeOptimizer(inner, 2),
        "ahead": optimizers.LookaheadOptimizer,
    }
    made: Any = optimizers.SGD(0.1)
    for name in order.split():
        made = wrap[name](made)
    return made


@pytest.mark.parametrize(
    "order", ["half recompute", "merge half", "ahead half", "merge recompute", "ahead merge"]
)
def test_optimizers_around_others_say_which_goes_inside(order: str) -> None:
    _nested(" ".join(reversed(order.split())))
    with pytest.raises(TypeError, match=r"goes inside \w+, not around it"):
        _nested(order)
    with pytest.raises(TypeError, match="takes an optimizer, not float"):
        fluid.optimizer.RecomputeOptimizer(0.1)  # type: ignore[arg-type]
