"""`value()` of what dygraph computes: the tensor that it holds, read and set, as in programs."""

from __future__ import annotations

import numpy as np
import pytest

from refluid import fluid

D = fluid.dygraph
PLACE = fluid.CPUPlace()


def test_the_tensor_of_a_result_is_read() -> None:
    given = np.arange(6, dtype="float32").reshape(2, 3)
    with D.guard():
        x = D.to_variable(given)
        for one in (x, x._ivar):
            assert np.array_equal(np.array(one.value().get_tensor()), given)
        assert one.value().get_tensor().shape() == [2, 3]
        assert one.value().is_initialized() and one.value().name == x.name
        assert not fluid.core.VarBase().value().is_initialized()


def test_a_result_is_given_lengths_of_sequences() -> None:
    with D.guard():
        x = D.to_variable(np.ones((5, 2), "float32"))
        x.value().get_tensor().set_recursive_sequence_lengths([[2, 3]])
        assert x.lod == [[0, 2, 5]]
        assert x.value().get_tensor().recursive_sequence_lengths() == [[2, 3]]


@pytest.mark.parametrize("steps_before", [0, 1, 4])
def test_a_parameter_that_is_set_trains_on(steps_before: int) -> None:
    rows = np.ones((2, 3), "float32")
    with D.guard():
        net = D.Linear(3, 1, bias_attr=False)
        sgd = fluid.optimizer.SGD(0.5, parameter_list=net.parameters())

        def step() -> None:
            fluid.layers.reduce_mean(net(D.to_variable(rows))).backward()
            sgd.minimize(fluid.layers.reduce_mean(net(D.to_variable(rows))))
            slope = net.weight._grad_ivar().value().get_tensor()
            assert np.allclose(np.array(slope), 1.0)
            net.clear_gradients()

        for _ in range(steps_before):
            step()
        holder = net.weight.value().get_tensor()
        holder.set(np.full((3, 1), 2, "float32"), PLACE)
        assert net.weight.numpy().tolist() == [[2.0]] * 3 and not net.weight.stop_gradient
        step()
        assert np.array(holder).tolist() == [[1.5]] * 3
        assert net(D.to_variable(rows)).numpy().tolist() == [[4.5]] * 2


@pytest.mark.parametrize("by_holder", [False, True])
def test_a_weight_that_is_set_before_its_gradient_is_read_as_set(by_holder: bool) -> None:
    rows, new = np.ones((4, 2), "float32"), np.full((2, 3), 5, "float32")
    with D.guard():
        net, x = D.Linear(2, 3), D.to_variable(rows)
        x.stop_gradient = False
        out = fluid.layers.reduce_sum(net(x)) + fluid.layers.reduce_sum(net(x * 2.0))
        if by_holder:
            net.weight.value().get_tensor().set(new, PLACE)
        else:
            net.weight.set_value(new)
        out.backward()
        assert np.allclose(x.gradient(), 15.0 + 2 * 15.0)
        assert np.allclose(net.weight.gradient(), 4.0 + 2 * 4.0)


def test_a_norm_of_a_weight_may_be_set_at_each_use() -> None:
    images = np.random.RandomState(0).rand(2, 3, 5, 5).astype("float32")
    with D.guard():
        conv, x = D.Conv2D(3, 4, 3), D.to_variable(images)
        norm = D.SpectralNorm(conv.weight.shape)
        adam = fluid.optimizer.Adam(0.1, parameter_list=conv.parameters())
        losses = []
        for _ in range(5):
            loss = 0.0
            for factor in (1.0, 0.5):
                conv.weight.set_value(norm(conv.weight))
                loss = loss + fluid.layers.reduce_mean(conv(x * factor))
            loss.backward()
            adam.minimize(loss)
            conv.clear_gradients()
            losses.append(float(loss.numpy()[0]))
        assert losses[-1] < losses[0]


def test_statistics_that_are_set_are_what_a_norm_infers_by() -> None:
    with D.guard():
        norm = D.BatchNorm(2)
        x = D.to_variable(np.random.RandomState(0).rand(4, 2).astype("float32"))
        norm(x)
        norm._mean.value().get_tensor().set(np.full(2, 3, "float32"), PLACE)
        norm._variance.value().get_tensor().set(np.full(2, 4, "float32"), PLACE)
        norm.eval()
        assert np.allclose(norm(x).numpy(), (x.numpy() - 3) / 2, atol=1e-4)
        norm.train()
        norm(x)
        assert np.allclose(norm._mean.numpy(), 2.7 + 0.1 * x.numpy().mean(0), atol=1e-6)


def test_a_tensor_of_sequences_keeps_its_lod() -> None:
    given = fluid.create_lod_tensor(np.arange(6, dtype="float32").reshape(3, 2), [[2, 1]], PLACE)
    with D.guard():
        x = D.to_variable(given)
        assert x.value().get_tensor().recursive_sequence_lengths() == [[2, 1]]
        sums = fluid.layers.sequence_pool(x, "sum")
        assert np.array_equal(sums.numpy(), [[2, 4], [4, 5]])
        given.set_recursive_sequence_lengths([[1, 2]])
        assert x.value().get_tensor().recursive_sequence_lengths() == [[2, 1]]
        plain = D.to_variable(fluid.create_lod_tensor(np.ones((2, 1)), [], PLACE))
        assert plain.value().get_tensor().lod() == []
