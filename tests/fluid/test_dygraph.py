"""Networks that run at once: as in a static program, trained, traced, saved and loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph

STEPS, ROWS, WIDTH = 5, 16, 6
Array = np.ndarray


def batches() -> list[tuple[Array, Array]]:
    source = np.random.RandomState(3)
    return [
        (source.rand(ROWS, WIDTH).astype("float32"), source.randint(0, 4, (ROWS, 1)))
        for _ in range(STEPS)
    ]


class Net(dygraph.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.first = dygraph.Linear(WIDTH, 8, act="relu")
        self.norm = dygraph.LayerNorm(8)
        self.last = dygraph.Linear(8, 4)

    def forward(self, x: Any) -> Any:
        return self.last(self.norm(self.first(x)))


def loss_of(out: Any, label: Any) -> Any:
    return fluid.layers.mean(fluid.layers.softmax_with_cross_entropy(out, label))


def at_once(
    optimizer: Callable[..., Any], start: dict[str, Array] | None = None
) -> tuple[list[float], dict[str, Array], dict[str, Array]]:
    """Losses of the steps, and the parameters before and after."""
    with dygraph.guard():
        fluid.default_startup_program().random_seed = 1
        net = Net()
        if start is not None:
            net.set_dict(start)
        before = {name: one.numpy() for name, one in net.state_dict().items()}
        chosen = optimizer(parameter_list=net.parameters())
        losses = []
        for x, label in batches():
            loss = loss_of(net(dygraph.to_variable(x)), dygraph.to_variable(label))
            loss.backward()
            chosen.minimize(loss)
            net.clear_gradients()
            losses.append(float(loss))
        return losses, before, {name: one.numpy() for name, one in net.state_dict().items()}


def static(optimizer: Callable[..., Any], start: dict[str, Array]) -> list[float]:
    """The same as a program, from the same parameters."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup), fluid.unique_name.guard(), fluid.scope_guard(scope):
        x = fluid.data("x", [None, WIDTH], "float32")
        label = fluid.data("label", [None, 1], "int64")
        names = iter(start)

        def named() -> Any:
            return fluid.ParamAttr(name=next(names))

        def linear(x: Any, width: int, act: str | None) -> Any:
            weight = fluid.layers.create_parameter([x.shape[-1], width], "float32", attr=named())
            bias = fluid.layers.create_parameter([width], "float32", attr=named())
            out = fluid.layers.elementwise_add(fluid.layers.matmul(x, weight), bias, axis=1)
            return fluid.layers.relu(out) if act else out

        hidden = linear(x, 8, "relu")
        hidden = fluid.layers.layer_norm(hidden, param_attr=named(), bias_attr=named())
        loss = loss_of(linear(hidden, 4, None), label)
        optimizer().minimize(loss)
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        for name, value in start.items():
            scope.var(name).get_tensor().set(value, fluid.CPUPlace())
        found = [
            exe.run(main, feed={"x": one, "label": two}, fetch_list=[loss])[0]
            for one, two in batches()
        ]
    return [float(one) for one in found]


OPTIMIZERS = {
    "sgd": lambda **how: fluid.optimizer.SGD(0.1, **how),
    "momentum, decay": lambda **how: fluid.optimizer.Momentum(
        0.1, 0.9, regularization=fluid.regularizer.L2Decay(1e-2), **how
    ),
    "adam, clip": lambda **how: fluid.optimizer.Adam(
        0.01, grad_clip=fluid.clip.GradientClipByGlobalNorm(0.5), **how
    ),
    "adagrad": lambda **how: fluid.optimizer.Adagrad(0.1, **how),
    "rmsprop": lambda **how: fluid.optimizer.RMSProp(0.01, **how),
    "adamax": lambda **how: fluid.optimizer.Adamax(0.01, **how),
    "lamb": lambda **how: fluid.optimizer.Lamb(0.01, **how),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_network_trains_as_its_program(name: str) -> None:
    optimizer = OPTIMIZERS[name]
    losses, start, after = at_once(optimizer)
    assert losses[0] != losses[-1]
    assert any(np.abs(after[one] - start[one]).max() > 0 for one in start)
    np.testing.assert_allclose(static(optimizer, start), losses, rtol=1e-6)


def test_gradients_add_up_until_they_are_cleared() -> None:
    with dygraph.guard():
        x = dygraph.to_variable(np.array([[1.0, 2.0]], dtype="float32"))
        assert x.stop_gradient
        x.stop_gradient = False
        for count in (1, 2):
            (x * 3.0).backward()
            assert x.gradient().tolist() == [[3.0 * count, 3.0 * count]]
        x.clear_gradient()
        assert x.gradient() is None
        y = x * x
        (y * 2.0).backward()
        assert y.gradient().tolist() == [[2.0, 2.0]]
        assert x.gradient().tolist() == [[4.0, 8.0]]


def test_nothing_takes_a_gradient_in_no_grad() -> None:
    with dygraph.guard():
        layer = dygraph.Linear(2, 2)
        x = dygraph.to_variable(np.ones((1, 2), "float32"))
        with dygraph.no_grad():
            assert layer(x).stop_gradient
        assert not layer(x).stop_gradient
        assert dygraph.no_grad(lambda: layer(x))().stop_gradient


@pytest.mark.parametrize("again", [False, True])
def test_gradients_of_gradients(again: bool) -> None:
    with dygraph.guard():
        x = fluid.layers.fill_constant([1], "float32", 3.0)
        x.stop_gradient = False
        (slope,) = dygraph.grad([x * x * x], [x], create_graph=again, retain_graph=True)
        assert slope is not None
        assert float(slope) == 27.0
        (x * 1.0 + slope).backward()
        assert float(x.gradient()[0]) == (19.0 if again else 1.0)


def test_state_goes_to_files_and_back(tmp_path: Path) -> None:
    def train(net: Any, chosen: Any, steps: list[tuple[Array, Array]]) -> list[float]:
        losses = []
        for x, label in steps:
            loss = loss_of(net(dygraph.to_variable(x)), dygraph.to_variable(label))
            loss.backward()
            chosen.minimize(loss)
            net.clear_gradients()
            losses.append(float(loss))
        return losses

    def made() -> tuple[Any, Any]:
        net = Net()
        rate = dygraph.ExponentialDecay(0.1, 2, 0.5)
        return net, fluid.optimizer.Adam(rate, parameter_list=net.parameters())

    path = str(tmp_path / "folder" / "model")
    with dygraph.guard():
        net, chosen = made()
        train(net, chosen, batches()[:2])
        fluid.save_dygraph(net.state_dict(), path)
        fluid.save_dygraph(chosen.state_dict(), path)
        rest = train(net, chosen, batches()[2:])
    assert {one.name for one in Path(path).parent.iterdir()} == {"model.pdparams", "model.pdopt"}
    with dygraph.guard():
        net, chosen = made()
        layer, state = fluid.load_dygraph(path)
        assert layer is not None and state is not None
        net.set_dict(layer)
        chosen.set_dict(state)
        assert train(net, chosen, batches()[2:]) == rest
    with pytest.raises(EnforceNotMet, match="save one by"):
        fluid.load_dygraph(path + "x")


def test_batch_norm_and_dropout_know_whether_they_train() -> None:
    x = np.random.RandomState(0).rand(8, 3, 4, 4).astype("float32")
    with dygraph.guard():
        norm, drop = dygraph.BatchNorm(3, momentum=0.5), dygraph.Dropout(0.5)
        both = dygraph.Sequential(norm, drop)
        assert (both(dygraph.to_variable(x)).numpy() == 0).any()
        np.testing.assert_allclose(norm._mean.numpy(), x.mean((0, 2, 3)) / 2, rtol=1e-5)
        both.eval()
        mean = norm._mean.numpy()
        out = both(dygraph.to_variable(x)).numpy()
        assert (norm._mean.numpy() == mean).all()
        wanted = (x - mean[:, None, None]) / np.sqrt(norm._variance.numpy()[:, None, None] + 1e-5)
        np.testing.assert_allclose(out, wanted / 2, rtol=1e-4, atol=1e-6)
        assert {id(one) for one in both.parameters()} >= {id(norm.weight), id(norm._mean)}


def test_a_trace_computes_the_same_on_the_same_parameters(tmp_path: Path) -> None:
    x = batches()[0][0]
    with dygraph.guard():
        net = Net()
        out, traced = dygraph.TracedLayer.trace(net, [dygraph.to_variable(x)])
        assert (traced([x])[0] == out.numpy()).all()
        net.first.weight.set_value(np.zeros((WIDTH, 8), "float32"))
        assert (traced([x[:3]])[0] == net(dygraph.to_variable(x[:3])).numpy()).all()
        traced.save_inference_model(str(tmp_path))
        wanted = net(dygraph.to_variable(x)).numpy()
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        program, feeds, fetches = fluid.io.load_inference_model(str(tmp_path), exe)
        (found,) = exe.run(program, feed={feeds[0]: x}, fetch_list=fetches)
    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_a_trace_says_which_inputs_and_outputs_there_are(tmp_path: Path) -> None:
    x = batches()[0][0]
    with dygraph.guard():
        _, traced = dygraph.TracedLayer.trace(Net(), [dygraph.to_variable(x)])
        with pytest.raises(ValueError, match="feed has 5, but there are 1"):
            traced.save_inference_model(str(tmp_path), feed=[5])
        with pytest.raises(ValueError, match="fetch has 'a', but there are 1"):
            traced.save_inference_model(str(tmp_path), fetch=["a"])  # type: ignore[list-item]
        with pytest.raises(AssertionError, match="took 1 inputs, and gets 2"):
            traced([x, x])
        traced.save_inference_model(str(tmp_path), feed=[-1], fetch=[-1])


def test_names_members_and_hooks() -> None:
    with dygraph.guard():
        net = Net()
        assert [name for name, _ in net.named_parameters()] == [
            *("first.weight", "first.bias", "norm.weight", "norm.bias"),
            *("last.weight", "last.bias"),
        ]
        assert net.first.weight.name == "linear_0.w_0"
        assert net.last.bias.name == "linear_1.b_0"
        assert [name for name, _ in net.named_sublayers()] == ["first", "norm", "last"]
        x = dygraph.to_variable(batches()[0][0])
        plain = net(x).numpy()
        before = net.register_forward_pre_hook(lambda _, given: given[0] * 0.0)
        after = net.register_forward_post_hook(lambda *given: given[2] + 1.0)
        changed = net(x).numpy()
        before.remove()
        assert not (changed == plain + 1).all()
        assert (net(x).numpy() == plain + 1).all()
        after.remove()
        net.first = None
        assert len(net.parameters()) == 4
        with pytest.raises(TypeError, match="assignment to parameter"):
            net.last.weight = 3


def test_outside_of_a_guard() -> None:
    assert not fluid.in_dygraph_mode()
    with pytest.raises(AssertionError, match=r"fluid\.dygraph\.guard"):
        dygraph.to_variable(np.ones(1))
    fluid.enable_dygraph()
    try:
        assert fluid.in_dygraph_mode()
        assert float(dygraph.to_variable(np.ones(1, "float32")) + 1.0) == 2.0
    finally:
        fluid.disable_dygraph()
    assert not fluid.in_dygraph_mode()


def test_a_gradient_that_there_is_not_is_missed_when_it_is_asked_for() -> None:
    with dygraph.guard():
        x = dygraph.to_variable(np.ones((2, 2), "float32"))
        x.stop_gradient = False
        out = fluid.layers.dropout(x, 0.5, is_test=True)
        assert out.numpy().tolist() == [[0.5, 0.5], [0.5, 0.5]]
        with pytest.raises(EnforceNotMet, match="is_test=True has no gradient"):
            out.backward()


@pytest.mark.parametrize("name", ["weight", "bias"])
def test_a_variable_in_the_place_of_a_parameter(name: str) -> None:
    """Users' spectral normalisation: the parameter goes, and what is computed takes its place."""
    with fluid.dygraph.guard():
        layer = fluid.dygraph.Linear(3, 2)
        x = fluid.dygraph.to_variable(np.ones((1, 3), "float32"))
        own = layer._parameters.pop(name)
        setattr(layer, name, own * 2.0 + 1.0)
        out = layer(x)
        assert np.allclose(out.numpy(), x.numpy() @ layer.weight.numpy() + layer.bias.numpy())
        out.backward()
        assert np.allclose(own.gradient(), 2.0)
