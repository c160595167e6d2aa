"""Functions of one's own before quantisation, as PACT: as if the network itself called them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core
from refluid.fluid.contrib.slim.quantization import (
    QuantizationFreezePass,
    QuantizationTransformPass,
)
from refluid.fluid.framework import IrGraph
from refluid.fluid.layer_helper import LayerHelper

RANDOM = np.random.RandomState(3)
INPUT = RANDOM.randn(8, 5).astype("float32")
Function = Callable[[Any], Any]


def _clipped(x: Any) -> Any:
    """PACT: x between -u and u, where u is trained; each activation has one."""
    attr = fluid.ParamAttr(
        name=x.name.split("_tmp_input")[0] + "_pact",
        initializer=fluid.initializer.Constant(0.7),
        regularizer=fluid.regularizer.L2Decay(0.01),
    )
    bound = LayerHelper("pact").create_parameter(attr=attr, shape=[1], dtype="float32")
    x = x - fluid.layers.relu(x - bound)
    return x + fluid.layers.relu(-bound - x)


def _bent(weight: Any) -> Any:
    return fluid.layers.tanh(weight)


def _same(x: Any) -> Any:
    return x


def _network(act: Function = _same, weight: Function = _same, stopped: bool = False) -> Any:
    """A network whose second activation is read twice by products, and once besides."""
    x = fluid.data("x", [None, 5])
    x.stop_gradient = stopped

    def product(value: Any, name: str) -> Any:
        array = np.random.RandomState(len(name)).randn(value.shape[1], 4).astype("float32")
        first = fluid.initializer.NumpyArrayInitializer(array)
        w = fluid.layers.create_parameter(list(array.shape), "float32", name, None, False, first)
        return fluid.layers.mul(value, weight(w))

    hidden = fluid.layers.scale(product(act(x), "first"), 1.5)
    read = act(hidden)
    out = product(read, "left") * product(read, "right") + fluid.layers.square(hidden)
    return fluid.layers.mean(out)


class _Training:
    """Five steps of a network; the values of all parameters after them."""

    def __init__(self, stopped: bool = False, by_hand: Any = None, **functions: Any) -> None:
        self.main, self.startup, self.scope = fluid.Program(), fluid.Program(), fluid.Scope()
        self.main.random_seed = 1
        self.exe = fluid.Executor(fluid.CPUPlace())
        with fluid.unique_name.guard(), fluid.program_guard(self.main, self.startup):
            self.loss = _network(*(by_hand or ()), stopped=stopped)
            self.test = self.main.clone(for_test=True)
            self._minimize(bool(by_hand))
        with fluid.scope_guard(self.scope):
            self.exe.run(self.startup)
        self.functions = functions

    def _minimize(self, by_hand: bool) -> None:
        if not by_hand:
            fluid.optimizer.SGD(0.1).minimize(self.loss)
            return
        pairs = fluid.backward.append_backward(self.loss)
        own = [pair for pair in pairs if "pact" in pair[0].name]
        others = [pair for pair in pairs if "pact" not in pair[0].name]
        fluid.optimizer.SGD(0.1).apply_gradients(others)
        if own:
            fluid.optimizer.Momentum(0.5, 0.9).apply_gradients(own)

    def transformed(self, program: Any = None, for_test: bool = False) -> IrGraph:
        program = program or self.main
        given = {
            "optimizer_func": lambda: fluid.optimizer.Momentum(0.5, 0.9),
            "executor": self.exe,
            **self.functions,
        }
        graph = IrGraph(core.Graph(program.desc), for_test=for_test)
        return QuantizationTransformPass(self.scope, fluid.CPUPlace(), **given).apply(graph)

    def trained(self, program: Any) -> dict[str, Any]:
        with fluid.scope_guard(self.scope):
            for _ in range(5):
                self.exe.run(program, {"x": INPUT}, [self.loss.name])
            return {
                name: np.array(self.scope.find_var(name).get_tensor())
                for name in self.scope.local_var_names()
                if name in ("first", "left", "right") or name.endswith("_pact")
            }


@pytest.mark.parametrize(("act", "weight"), [(_clipped, _same), (_same, _bent), (_clipped, _bent)])
def test_networks_train_as_if_they_called_the_functions(act: Function, weight: Function) -> None:
    expected = _Training(by_hand=(act, weight))
    own = _Training(act_quantize_func=act, weight_quantize_func=weight)
    found = own.trained(own.transformed().to_program())
    wanted = expected.trained(expected.main)
    assert len(found) == len(wanted) == (5 if act is _clipped else 3)
    for one, other in zip(sorted(found), sorted(wanted), strict=True):
        np.testing.assert_allclose(found[one], wanted[other], rtol=1e-5, err_msg=one)


def test_what_is_quantised_went_through_the_functions_before() -> None:
    """With 16 bits nearly as if nothing was quantised."""
    expected = _Training(by_hand=(_clipped, _bent))
    own = _Training(
        act_preprocess_func=_clipped,
        weight_preprocess_func=_bent,
        weight_bits=16,
        activation_bits=16,
    )
    program = own.transformed().to_program()
    found, wanted = own.trained(program), expected.trained(expected.main)
    assert len(found) == len(wanted) == 5
    for one, other in zip(sorted(found), sorted(wanted), strict=True):
        np.testing.assert_allclose(found[one], wanted[other], atol=1e-3, err_msg=one)
    types = [op.type for op in program.global_block().ops]
    assert types.count("fake_quantize_abs_max") == 5
    assert types.count("momentum") == 2


def test_a_program_for_inference_uses_what_was_trained() -> None:
    own = _Training(act_preprocess_func=_clipped)
    own.trained(own.transformed().to_program())
    bound = np.array(own.scope.find_var("x_pact").get_tensor())
    assert bound != np.float32(0.7)
    test = own.transformed(own.test, for_test=True)
    with fluid.scope_guard(own.scope):
        simulated = own.exe.run(test.to_program(), {"x": INPUT}, [own.loss.name])[0]
        assert np.array(own.scope.find_var("x_pact").get_tensor()) == bound
        QuantizationFreezePass(own.scope, fluid.CPUPlace()).apply(test)
        frozen = own.exe.run(test.to_program(), {"x": INPUT}, [own.loss.name])[0]
    np.testing.assert_allclose(frozen, simulated, rtol=1e-5)


def test_replicas_exchange_the_gradients_of_own_parameters() -> None:
    found = {}
    for count in (1, 2):
        own = _Training(act_preprocess_func=_clipped)
        program: Any = own.transformed().to_program()
        if count > 1:
            program = fluid.CompiledProgram(program).with_data_parallel(
                own.loss.name, places=fluid.cpu_places(count)
            )
            with fluid.scope_guard(own.scope):
                for _ in range(5):
                    own.exe.run(program, {"x": np.tile(INPUT, (2, 1))}, [own.loss.name])
            found[count] = np.array(own.scope.find_var("x_pact").get_tensor())
        else:
            found[count] = own.trained(program)["x_pact"]
    np.testing.assert_allclose(found[2], found[1], rtol=1e-5)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(ValueError, match="nothing trains it; give optimizer_func"):
        _Training(act_preprocess_func=_clipped, optimizer_func=None).transformed()
    with pytest.raises(ValueError, match=r"nothing starts them; give executor"):
        _Training(act_preprocess_func=_clipped, executor=None).transformed()
    with pytest.raises(ValueError, match=r"set x\.stop_gradient = False before minimize"):
        _Training(act_preprocess_func=_clipped, stopped=True).transformed()
    with pytest.raises(TypeError, match="must be functions, not str"):
        _Training(act_preprocess_func="PACT").transformed()
    with pytest.raises(TypeError, match="must return a variable, not NoneType"):
        _Training(act_preprocess_func=lambda x: None).transformed()
    own = _Training(weight_preprocess_func=_bent)
    test = own.transformed(own.test, for_test=True)
    with pytest.raises(ValueError, match="without weight_preprocess_func"):
        QuantizationFreezePass(own.scope, fluid.CPUPlace()).apply(test)
