"""Layers of `paddle.nn`: the same in programs and at once, and the names that Paddle 2 gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid.core import names
from refluid.core.places import CPUPlace
from refluid.eager import mode
from refluid.paddle import nn, optimizer, static
from refluid.paddle.framework.seeds import seed
from refluid.paddle.nn import functional
from refluid.paddle.tensor.creation import to_tensor
from refluid.paddle.vision.models import LeNet, vgg11
from refluid.paddle.vision.models.resnet import BasicBlock, BottleneckBlock, ResNet
from tests.paddle.two.networks import fresh

# Names of a layer's parameters, by attributes, as Paddle 2.6.2 gives them.
NAMED: dict[str, tuple[Any, dict[str, str]]] = {
    "conv": (lambda: nn.Conv2D(3, 4, 3), {"weight": "conv2d_0.w_0", "bias": "conv2d_0.b_0"}),
    "norm": (
        lambda: nn.BatchNorm2D(4),
        {
            "weight": "batch_norm2d_0.w_0",
            "bias": "batch_norm2d_0.b_0",
            "_mean": "batch_norm2d_0.w_1",
            "_variance": "batch_norm2d_0.w_2",
        },
    ),
    "linear": (lambda: nn.Linear(3, 4), {"weight": "linear_0.w_0", "bias": "linear_0.b_0"}),
    "table": (lambda: nn.Embedding(3, 4), {"weight": "embedding_0.w_0"}),
    "transposed": (
        lambda: nn.Conv2DTranspose(3, 4, 3),
        {"weight": "conv2d_transpose_0.w_0", "bias": "conv2d_transpose_0.b_0"},
    ),
    "slope": (lambda: nn.PReLU(), {"_weight": "p_re_lu_0.w_0"}),
    "instances": (
        lambda: nn.InstanceNorm2D(4),
        {"scale": "instance_norm2d_0.w_0", "bias": "instance_norm2d_0.b_0"},
    ),
    "attention": (
        lambda: nn.MultiHeadAttention(4, 2),
        {
            f"{part}_proj.{kind}": f"linear_{number}.{letter}_0"
            for number, part in enumerate(("q", "k", "v", "out"))
            for kind, letter in (("weight", "w"), ("bias", "b"))
        },
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_parameters_have_paddles_names(kind: str) -> None:
    make, wanted = NAMED[kind]
    with names.guard(), mode.eager(CPUPlace()):
        assert {name: one.name for name, one in make().state_dict().items()} == wanted
    with fresh():
        assert {name: one.name for name, one in make().state_dict().items()} == wanted


def _blocks() -> Any:
    wider = nn.Sequential(nn.Conv2D(3, 8, 1), nn.BatchNorm2D(8))
    blocks = (BasicBlock(3, 3), BottleneckBlock(3, 2, downsample=wider))
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2D(2), nn.Flatten(), nn.Linear(32, 5))


def _encoder() -> Any:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0)
    return nn.Sequential(nn.TransformerEncoder(layer, 2), nn.Flatten(), nn.Linear(24, 5))


def _mixed() -> Any:
    return nn.Sequential(
        *(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.ReLU(), nn.MaxPool2D(2)),
        *(nn.Conv2D(4, 4, 3, groups=2), nn.GroupNorm(2, 4), nn.GELU(), nn.AvgPool2D(2)),
        *(nn.Flatten(), nn.LayerNorm(36), nn.Linear(36, 5)),
    )


NETWORKS = {
    "mixed": (_mixed, (3, 18, 18)),
    "blocks": (_blocks, (3, 8, 8)),
    "encoder": (_encoder, (3, 8)),
    "lenet": (lambda: LeNet(5), (1, 28, 28)),
}


def _batches(shape: tuple[int, ...]) -> list[tuple[Any, Any]]:
    draw = np.random.RandomState(3)
    sizes = (6, *shape)
    return [(draw.rand(*sizes).astype("float32"), draw.randint(0, 5, (6, 1))) for _ in range(4)]


def _in_program(make: Any, shape: tuple[int, ...]) -> tuple[list[float], dict[str, Any]]:
    with fresh() as (main, startup):
        x = static.data("x", [None, *shape])
        y = static.data("y", [None, 1], "int64")
        net = make()
        loss = functional.cross_entropy(net(x), y)
        optimizer.Momentum(0.001, 0.9, parameters=net.parameters()).minimize(loss)
        exe = static.Executor("cpu")
        exe.run(startup)
        scope = static.global_scope()
        start = {
            name: np.array(scope.find_var(one.name).get_tensor())
            for name, one in net.state_dict().items()
        }
        found = [
            float(exe.run(main, feed={"x": a, "y": b}, fetch_list=[loss])[0])
            for a, b in _batches(shape)
        ]
    return found, start


@pytest.mark.parametrize("kind", NETWORKS)
def test_networks_train_alike_in_programs_and_at_once(kind: str) -> None:
    make, shape = NETWORKS[kind]
    wanted, start = _in_program(make, shape)
    with names.guard(), mode.eager(CPUPlace()):
        net = make()
        assert net.set_state_dict(start) == ([], [])
        trained = optimizer.Momentum(0.001, 0.9, parameters=net.parameters())
        found = []
        for a, b in _batches(shape):
            loss = functional.cross_entropy(net(to_tensor(a)), to_tensor(b))
            loss.backward()
            trained.step()
            trained.clear_grad()
            found.append(float(loss))
    assert found == pytest.approx(wanted, rel=2e-4)
    assert wanted[0] != wanted[1]


def test_a_seed_gives_the_same_parameters() -> None:
    found = []
    for _ in range(2):
        with names.guard(), mode.eager(CPUPlace()):
            seed(11)
            found.append(nn.Linear(3, 4).weight.numpy().tolist())
    assert found[0] == found[1]


def test_states_of_big_networks() -> None:
    """Numbers of entries, as Paddle 2.6.2's states have."""
    with fresh():
        assert len(ResNet(BottleneckBlock, 50, num_classes=10).state_dict()) == 267
        assert len(vgg11().state_dict()) == 22


def test_buffers_and_trees() -> None:
    class Net(nn.Layer):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
            self.register_buffer("kept", to_tensor([1.0, 2.0]))
            self.register_buffer("other", to_tensor([3.0]), persistable=False)

    with names.guard(), mode.eager(CPUPlace()):
        net = Net()
        assert list(net.state_dict()) == ["kept", "inner.0.weight", "inner.0.bias"]
        assert [name for name, _ in net.named_buffers()] == ["kept", "other"]
        assert [name for name, _ in net.named_sublayers()] == ["inner", "inner.0", "inner.1"]
        seen: list[str] = []
        net.apply(lambda one: seen.append(type(one).__name__))
        assert seen == ["Linear", "ReLU", "Sequential", "Net"]
        net.eval()
        assert not net.inner[0].training
        net.kept = to_tensor([5.0, 6.0])
        assert net.kept.numpy().tolist() == [5.0, 6.0]
        missing, strange = net.set_state_dict({"kept": np.zeros(2, "float32"), "no": 1})
        assert missing == ["inner.0.weight", "inner.0.bias"]
        assert strange == ["no"]
        with pytest.raises(KeyError, match="already exists"):
            net.register_buffer("inner", to_tensor([1.0]))


def test_is_test_of_batch_norm_counts_in_programs_alone() -> None:
    """As recorded of paddle 2.6.2: `eval()` says so where operators run at once."""
    x = np.random.RandomState(3).rand(6, 4).astype("float32")
    with mode.eager(CPUPlace()):
        layer = nn.BatchNorm(4, is_test=True)
        given = to_tensor(x, stop_gradient=False)
        out = layer(given)
        np.testing.assert_allclose(out.numpy().mean(0), np.zeros(4), atol=1e-5)
        (out * out).sum().backward()
        assert given.grad.shape == [6, 4]
        layer.eval()
        mean, variance = layer._mean.numpy(), layer._variance.numpy()
        expected = (x - mean) / np.sqrt(variance + 1e-5)
        np.testing.assert_allclose(layer(given).numpy(), expected, rtol=1e-4)
