"""Gradient clips that users derive, in dygraph and in programs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid.clip import GradientClipBase, _correct_clip_op_role_var
from refluid.paddle import optimizer as paddle2

D, L = fluid.dygraph, fluid.layers


class Halving(GradientClipBase):
    """Halves what both ways clip; gradients of parameters that aren't wanted stay."""

    def _halved(self, params_grads: Any) -> Any:
        return [
            (param, grad if grad is None or self._skips(param) else L.scale(grad, 0.5))
            for param, grad in params_grads
        ]

    def _skips(self, param: Any) -> bool:
        return self._need_clip_func is not None and not self._need_clip_func(param)

    @D.no_grad  # type: ignore[untyped-decorator]
    def _dygraph_clip(self, params_grads: Any) -> Any:
        return self._halved(params_grads)

    def _static_clip(self, params_grads: Any) -> Any:
        found, names = [], {}
        with fluid.framework.name_scope("gradient_clip"):
            for param, grad in params_grads:
                with param.block.program._optimized_guard([param, grad]):
                    found += self._halved([(param, grad)])
                names[param.name] = found[-1][1].name
        _correct_clip_op_role_var(found, names)
        return found


class Norm(fluid.clip.GradientClipByGlobalNorm):
    """Clips by value, then as its base does."""

    def _dygraph_clip(self, params_grads: Any) -> Any:
        pairs = [(param, L.clip(grad, -1.0, 1.0)) for param, grad in params_grads]
        return super()._dygraph_clip(pairs)


class Nothing(GradientClipBase):
    """Has no way to clip."""


def _weight_after(clip: Any) -> np.ndarray:
    with D.guard():
        layer = D.Linear(2, 1, bias_attr=False)
        layer.weight.set_value(np.zeros((2, 1), "float32"))
        sgd = fluid.optimizer.SGD(1.0, parameter_list=layer.parameters(), grad_clip=clip)
        loss = L.reduce_sum(layer(D.to_variable(np.array([[6.0, 0.5]], "float32"))))
        loss.backward()
        sgd.minimize(loss)
        return layer.weight.numpy().ravel()


@pytest.mark.parametrize("half", [False, True])
def test_steps_of_paddle_2_clip_as_the_user_says(half: bool) -> None:
    """Those of float32 masters, too."""
    with D.guard():
        layer = D.Linear(2, 1, bias_attr=False, dtype="float16" if half else "float32")
        layer.weight.set_value(np.zeros((2, 1), "float16" if half else "float32"))
        sgd = paddle2.SGD(1.0, layer.parameters(), grad_clip=Halving())
        sgd.masters = paddle2.updating.MasterWeights() if half else None
        gradient = np.array([[6.0], [0.5]], "float16" if half else "float32")
        layer.weight.held.grad = D.to_variable(gradient).held
        sgd.step()
        assert layer.weight.numpy().ravel().tolist() == [-3.0, -0.25]


def test_dygraph_clips_as_the_user_says() -> None:
    assert _weight_after(Halving()).tolist() == [-3.0, -0.25]
    assert _weight_after(Halving(need_clip=lambda param: False)).tolist() == [-6.0, -0.5]


def test_what_is_derived_may_call_its_base() -> None:
    wanted = np.array([-1.0, -0.5]) * 0.5 / np.sqrt(1.25)
    np.testing.assert_allclose(_weight_after(Norm(0.5)), wanted, rtol=1e-6)


def test_programs_clip_as_the_user_says() -> None:
    main, startup, exe = fluid.Program(), fluid.Program(), fluid.Executor()
    with fluid.program_guard(main, startup), fluid.scope_guard(fluid.Scope()):
        x = fluid.data("x", [None, 2])
        zeros = fluid.ParamAttr(name="w", initializer=fluid.initializer.Constant(0.0))
        loss = L.reduce_sum(L.fc(x, 1, param_attr=zeros, bias_attr=False))
        fluid.optimizer.SGD(1.0, grad_clip=Halving()).minimize(loss)
        exe.run(startup)
        exe.run(main, feed={"x": np.array([[6.0, 0.5]], "float32")})
        assert np.array(fluid.global_scope().find_var("w").get_tensor()).ravel().tolist() == [
            -3.0,
            -0.25,
        ]
    (scale,) = [one for one in main.global_block().ops if one.type == "scale"]
    assert scale.attr("op_role_var") == ["w", scale.output_arg_names[0]]


def test_a_clip_without_a_way_says_what_it_lacks() -> None:
    with pytest.raises(NotImplementedError, match=r"Nothing must define _dygraph_clip"):
        _weight_after(Nothing())
