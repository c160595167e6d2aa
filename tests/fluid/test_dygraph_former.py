"""What dygraph of Fluid 1.5 and 1.6 had: FC, save_persistables, clips of `minimize`, the tracer."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.fluid import dygraph

RANDOM = np.random.RandomState(5)


@pytest.mark.parametrize("kept", [1, 2])
@pytest.mark.parametrize("act", [None, "relu"])
def test_fc_makes_its_weight_of_the_first_input(kept: int, act: str | None) -> None:
    sizes = [int(one) for one in RANDOM.randint(1, 6, 3)]
    with dygraph.guard():
        layer = dygraph.FC("fc", 4, num_flatten_dims=kept, act=act)
        assert layer.parameters() == []
        value = RANDOM.randn(*sizes).astype("float32")
        found = layer(dygraph.to_variable(value)).numpy()
        rows = value.reshape([*sizes[:kept], -1])
        wanted = rows @ layer.weight.numpy() + layer.bias.numpy()
        np.testing.assert_allclose(found, np.maximum(wanted, 0) if act else wanted, rtol=1e-5)
        assert [one.name for one in layer.parameters()] == ["fc_0.w_0", "fc_0.b_0"]


def test_fc_of_several_inputs_has_a_weight_for_each() -> None:
    with dygraph.guard():
        layer = dygraph.FC("fc", 3, bias_attr=False)
        values = [RANDOM.randn(2, width).astype("float32") for width in (4, 5)]
        found = layer([dygraph.to_variable(one) for one in values]).numpy()
        weights = [one.numpy() for one in layer.parameters()]
        wanted = sum(one @ weight for one, weight in zip(values, weights, strict=True))
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


def _trained(steps: int, net: dygraph.Linear, adam: fluid.optimizer.Adam) -> None:
    x = dygraph.to_variable(np.random.RandomState(0).rand(8, 3).astype("float32"))
    for _ in range(steps):
        loss = fluid.layers.mean(fluid.layers.square(net(x)))
        loss.backward()
        adam.minimize(loss)
        net.clear_gradients()


def test_what_save_persistables_wrote_goes_on(tmp_path: Path) -> None:
    with dygraph.guard():
        net = dygraph.Linear(3, 2)
        adam = fluid.optimizer.Adam(0.1, parameter_list=net.parameters())
        _trained(2, net, adam)
        dygraph.save_persistables(net.state_dict(), str(tmp_path), adam)
        _trained(2, net, adam)
    with dygraph.guard():
        other = dygraph.Linear(3, 2)
        values, state = dygraph.load_persistables(str(tmp_path))
        assert sorted(values) == ["linear_0.b_0", "linear_0.w_0"]
        other.load_dict(values)
        again = fluid.optimizer.Adam(0.1, parameter_list=other.parameters())
        again.set_dict(state)
        _trained(2, other, again)
        np.testing.assert_array_equal(other.weight.numpy(), net.weight.numpy())
        with pytest.raises(EnforceNotMet, match="no folder"):
            dygraph.load_persistables(str(tmp_path / "none"))


def _moved(clip: object) -> np.ndarray:
    """How far a step of SGD moves the weight, by gradients of 3."""
    with dygraph.guard():
        net = dygraph.Linear(4, 1, bias_attr=False)
        before = net.weight.numpy()
        sgd = fluid.optimizer.SGD(1.0, parameter_list=net.parameters())
        loss = fluid.layers.mean(net(dygraph.to_variable(np.full((1, 4), 3, "float32"))))
        loss.backward()
        sgd.minimize(loss, grad_clip=clip)  # type: ignore[call-arg]
        return before - net.weight.numpy()


def test_clips_given_to_minimize() -> None:
    clips = fluid.dygraph_grad_clip
    for clip, wanted in [
        (None, 3.0),
        (clips.GradClipByValue(-0.5, 0.25), 0.25),
        (clips.GradClipByValue(0.5), 0.5),
        (clips.GradClipByNorm(1.0), 0.5),
        (clips.GradClipByGlobalNorm(2.0), 1.0),
    ]:
        np.testing.assert_allclose(_moved(clip).ravel(), [wanted] * 4, rtol=1e-5)


def test_the_tracer() -> None:
    assert fluid.framework._dygraph_tracer() is None
    with dygraph.guard():
        tracer = fluid.framework._dygraph_tracer()
        x = dygraph.to_variable(np.array([-1.0, 2.0], "float32"))
        x.stop_gradient = False
        out = dygraph.Layer().create_variable(dtype="float32")
        tracer.trace_op("relu", {"X": x}, {"Out": out}, {})
        assert out.numpy().tolist() == [0.0, 2.0]
        assert not out.stop_gradient
        tracer.eval_mode()
        assert (x + 1).stop_gradient
        tracer.train_mode()
        assert not (x + 1).stop_gradient
