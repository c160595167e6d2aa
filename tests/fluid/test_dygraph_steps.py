"""Steps of dygraph one after the other, and what layers and optimizers refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.fluid import dygraph
from tests.fluid.test_dygraph import Array, Net


def test_gradients_of_layers_within_layers_are_cleared_once_each() -> None:
    with dygraph.guard():
        net, shared = Net(), dygraph.Linear(4, 4)
        net.again, net.list = shared, dygraph.LayerList([shared, Net(), dygraph.Sequential()])
        net.nothing = dygraph.Linear(4, 4)
        net.nothing = None
        shared.back = net
        for one in net.parameters():
            one.held.grad = one.held.detach().clone()
        assert len(net.parameters()) == 6 + 2 + 6
        net.clear_gradients()
        assert all(one.gradient() is None for one in net.parameters())


def test_a_step_like_the_last_one_and_one_that_is_not() -> None:
    """Parameters without gradients, that are fixed or set anew, from one step to the next."""

    def trained(fresh: bool) -> list[Array]:
        source = np.random.RandomState(5)
        with dygraph.guard():
            parts = [dygraph.Linear(3, 3) for _ in range(3)]
            for number, one in enumerate(parts):
                one.weight.set_value(np.full((3, 3), 0.1 * (number + 1), "float32"))
            parameters = [one for part in parts for one in part.parameters()]
            adam = fluid.optimizer.Adam(0.1, parameter_list=parameters)
            for _ in range(40):
                chosen = [part for part in parts if source.rand() < 0.8] or parts[:1]
                if source.rand() < 0.2:
                    fixed = parameters[source.randint(len(parameters))]
                    fixed.trainable = not fixed.trainable
                if source.rand() < 0.2:
                    one = parameters[source.randint(len(parameters))]
                    one.held = one.tensor.detach() * 0.5
                x = dygraph.to_variable(source.rand(2, 3).astype("float32"))
                for part in chosen:
                    x = part(x)
                loss = fluid.layers.mean(x * x)
                if not loss.stop_gradient:
                    loss.backward()
                if fresh and "_at_once" in vars(adam):
                    adam._at_once._updates._latest = None
                adam.minimize(loss)
                for part in parts:
                    part.clear_gradients()
            return [one.numpy() for one in parameters]

    for found, wanted in zip(trained(False), trained(True), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    "make",
    [
        lambda: fluid.optimizer.ModelAverage(0.15),
        lambda: fluid.optimizer.ExponentialMovingAverage(0.9),
        lambda: fluid.optimizer.LookaheadOptimizer(fluid.optimizer.SGD(0.1, parameter_list=[])),
    ],
)
def test_what_is_for_programs_alone_says_so(make: Callable[[], Any]) -> None:
    with dygraph.guard(), pytest.raises(NotImplementedError, match="In dygraph, don't support"):
        make()


def test_a_network_may_call_its_own_parts_what_it_likes() -> None:
    own = [one for one in dir(dygraph.Layer) if one.startswith("_") and not one.startswith("__")]
    assert [one for one in own if not one.startswith("_refluid")] == ["_build_once"], "Fluid's"


@pytest.mark.parametrize("act", [None, "relu", "softmax"])
def test_a_layers_weight_may_be_computed_of_others(act: str | None) -> None:
    """As Parakeet divides weights by their norms; the layer then has no parameter of that name."""
    rows = np.linspace(-1, 1, 6, dtype="float32").reshape(2, 3)
    with dygraph.guard(fluid.CPUPlace()):
        layer = dygraph.Linear(3, 4, act=act)
        want = layer(dygraph.to_variable(rows)).numpy()
        half = layer.create_parameter([3, 4])
        half.set_value(layer.weight.numpy() / 2)
        del layer.weight
        layer.weight = half * 2
        out = layer(dygraph.to_variable(rows))
        fluid.layers.reduce_sum(out * out).backward()
        np.testing.assert_array_equal(out.numpy(), want)
        assert layer.parameters() == [layer.bias]
        assert np.abs(half.gradient()).sum() > 0


def test_layers_made_of_a_convolution_read_what_it_was_made_with() -> None:
    """As Parakeet's convolution that goes on sample by sample."""
    with dygraph.guard(fluid.CPUPlace()):
        layer = dygraph.Conv2D(2, 4, (1, 3), padding=(0, 2), dilation=(1, 2), stride=1, groups=2)
        assert (layer._num_channels, layer._num_filters, layer._groups) == (2, 4, 2)
        assert [*layer._filter_size, *layer._stride, *layer._padding] == [1, 3, 1, 1, 0, 2]
        assert list(layer._dilation) == [1, 2]
        named = {"name": "of_this"}
        layer = dygraph.Conv2D(2, 4, 3, param_attr=fluid.ParamAttr(**named), bias_attr=False)
        assert (layer._filter_size, layer._bias_attr, layer._use_cudnn) == (3, False, True)
        assert layer._param_attr.name == "of_this"


def test_so_do_layers_made_of_others() -> None:
    """Under the names that programs read which exchange each layer of a network for another."""
    with dygraph.guard(fluid.CPUPlace()):
        read = {
            "momentum epsilon param_attr bias_attr act is_test use_global_stats data_layout "
            "trainable_statistics in_place dtype": dygraph.BatchNorm(3, momentum=0.5),
            "epsilon scale shift param_attr bias_attr act dtype": dygraph.LayerNorm([3]),
            "epsilon param_attr bias_attr dtype": dygraph.InstanceNorm(3),
            "size is_sparse is_distributed param_attr padding_idx dtype": dygraph.Embedding([5, 3]),
        }
    for names, layer in read.items():
        made = type(layer)
        for name in names.split():
            assert f"_{name}" in vars(layer), f"{made.__name__}._{name}"


def test_convolutions_name_their_operators() -> None:
    """For layers derived from them that call it on a part of the weights."""
    with dygraph.guard(fluid.CPUPlace()):
        for groups, cudnn, kind in ((1, True, ""), (4, True, ""), (4, False, "depthwise_")):
            made = {"groups": groups, "use_cudnn": cudnn}
            assert dygraph.Conv2D(4, 4, 3, **made)._l_type == f"{kind}conv2d"
            layer = dygraph.Conv2DTranspose(4, 4, 3, **made)
            assert layer._op_type == f"{kind}conv2d_transpose"


def test_what_is_set_on_a_layer_counts_from_then_on() -> None:
    """As where the last stages of a network trade strides for dilation, or statistics stay."""
    x = np.random.RandomState(0).rand(2, 2, 8, 8).astype("float32")
    with dygraph.guard(fluid.CPUPlace()):
        image = dygraph.to_variable(x)
        layer = dygraph.Conv2D(2, 4, 3, stride=2, padding=1)
        assert layer(image).shape == [2, 4, 4, 4]
        layer._stride, layer._dilation, layer._padding = [1, 1], [2, 2], [2, 2]
        assert layer(image).shape == [2, 4, 8, 8]
        norm = dygraph.BatchNorm(2)
        norm._use_global_stats = True
        norm._epsilon = 1e-3
        np.testing.assert_allclose(norm(image).numpy(), x / np.sqrt(1.001), rtol=1e-6)
        norm.eval()
        np.testing.assert_allclose(norm(image).numpy(), x / np.sqrt(1.001), rtol=1e-6)


def test_a_pooling_says_and_does_what_is_set_on_it() -> None:
    x = np.arange(16, dtype="float32").reshape(1, 1, 4, 4)
    with dygraph.guard(fluid.CPUPlace()):
        image = dygraph.to_variable(x)
        layer = dygraph.Pool2D(2, "avg", 2)
        assert (layer._pool_type, layer._pool_size, layer._pool_stride) == ("avg", [2, 2], [2, 2])
        assert (layer._pool_padding, layer._global_pooling) == ([0, 0], False)
        assert layer(image).numpy().tolist() == [[[[2.5, 4.5], [10.5, 12.5]]]]
        layer._pool_type, layer._pool_stride = "max", [1, 2]
        assert layer(image).numpy().tolist() == [[[[5, 7], [9, 11], [13, 15]]]]
        layer._global_pooling = True
        assert layer(image).numpy().tolist() == [[[[15]]]]


def test_state_of_other_parameters_is_told() -> None:
    """States go by the names of parameters, and Fluid refuses those that don't fit."""

    def step(net: Any, chosen: Any) -> None:
        loss = fluid.layers.reduce_mean(net(dygraph.to_variable(np.ones([2, 3], "f"))))
        loss.backward()
        chosen.minimize(loss)
        net.clear_gradients()

    with dygraph.guard():
        states = []
        for given in (False, True, True):
            net = dygraph.Linear(3, 2)
            chosen = fluid.optimizer.Adam(0.1, parameter_list=net.parameters())
            if given:
                chosen.set_dict(states[0])
                with pytest.warns(UserWarning, match="none belongs to what this optimizer keeps"):
                    step(net, chosen)
            step(net, chosen)
            states.append({name: one.numpy() for name, one in chosen.state_dict().items()})
        chosen.set_dict({})
        step(net, chosen)
        plain = fluid.optimizer.SGD(0.1, parameter_list=net.parameters())
        plain.set_dict(states[0])
        step(net, plain)
