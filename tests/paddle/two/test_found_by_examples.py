"""What examples of Paddle 2's docstrings found."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import refluid.paddle as paddle


@pytest.fixture(autouse=True)
def _at_once() -> Iterator[None]:
    paddle.disable_static()
    try:
        yield
    finally:
        paddle.set_grad_enabled(True)
        paddle.enable_static()


def test_sizes_and_axes_of_variables() -> None:
    x = paddle.arange(6, dtype="float32")
    assert x.reshape(paddle.to_tensor([2, 3])).shape == [2, 3]
    assert paddle.unsqueeze(x, paddle.to_tensor([0, 1])).shape == [1, 1, 6]
    assert paddle.tile(x, paddle.to_tensor([3, 2], dtype="int32")).shape == [3, 12]


@pytest.mark.parametrize("step", [0.1, 0.2, 0.3, 0.7])
def test_how_many_follows_from_the_numbers_given(step: float) -> None:
    for count in (3, 6, 7, 11):
        found = paddle.arange(0, count * step, step, "float32")
        wanted = np.arange(0, count * step, step)
        assert found.shape == [len(wanted)]
        np.testing.assert_allclose(found.numpy(), wanted, rtol=1e-6)


def test_axes_of_both() -> None:
    x, y = np.arange(24.0).reshape(2, 3, 4), np.arange(36.0).reshape(3, 3, 4)
    found = paddle.tensordot(paddle.to_tensor(x), paddle.to_tensor(y), axes=[1, 2])
    np.testing.assert_allclose(found.numpy(), np.tensordot(x, y, [[1, 2], [1, 2]]))
    found = paddle.tensordot(paddle.to_tensor(x), paddle.to_tensor(y), axes=[[1, 2], [0, 2]])
    np.testing.assert_allclose(found.numpy(), np.tensordot(x, y, [[1, 2], [0, 2]]))


def test_the_longer_list_of_axes_counts() -> None:
    x, y = np.arange(120.0).reshape(2, 3, 4, 5), np.arange(120.0).reshape(3, 2, 4, 5)
    found = paddle.tensordot(paddle.to_tensor(x), paddle.to_tensor(y), axes=[[0, 1, 3], [1, 0]])
    np.testing.assert_allclose(found.numpy(), np.tensordot(x, y, [[0, 1, 3], [1, 0, 3]]))


def test_layers_of_functions_take_names() -> None:
    x = paddle.rand([2, 3, 8, 8])
    assert paddle.nn.AdaptiveAvgPool2D(2)(x=x).shape == [2, 3, 2, 2]


def test_a_summary_of_a_dict() -> None:
    class Net(paddle.nn.Layer):
        def __init__(self) -> None:
            super().__init__()
            self.linear = paddle.nn.Linear(3, 2)

        def forward(self, given: dict[str, Any]) -> Any:
            return self.linear(given["a"] + given["b"])

    two = {"a": paddle.rand([4, 3]), "b": paddle.rand([4, 3])}
    assert paddle.summary(Net(), input=two) == {"total_params": 8, "trainable_params": 8}


def test_labels_of_one_column() -> None:
    x = paddle.nn.functional.log_softmax(paddle.to_tensor(np.eye(3, dtype="float32")))
    label = paddle.to_tensor([2, 0, 1])
    flat = paddle.nn.functional.nll_loss(x, label)
    column = paddle.nn.functional.nll_loss(x, label.reshape([-1, 1]))
    assert flat.numpy().tolist() == column.numpy().tolist()


def test_gradients_are_turned_off_from_here_on() -> None:
    x = paddle.to_tensor([1.0], stop_gradient=False)
    with paddle.set_grad_enabled(False):
        assert (x * 2).stop_gradient
    assert not (x * 2).stop_gradient
    paddle.set_grad_enabled(False)
    assert (x * 2).stop_gradient


def test_betas_that_are_variables() -> None:
    for kind in (paddle.optimizer.Adam, paddle.optimizer.AdamW, paddle.optimizer.Adamax):
        weights = []
        for beta in (0.8, paddle.to_tensor([0.8])):
            net = paddle.nn.Linear(2, 2, bias_attr=False)
            net.weight.set_value(np.ones((2, 2), "float32"))
            chosen = kind(0.1, beta1=beta, parameters=net.parameters())
            for _ in range(3):
                (net(paddle.ones([1, 2])) ** 2).sum().backward()
                chosen.step()
                chosen.clear_grad()
            weights.append(net.weight.numpy())
        np.testing.assert_allclose(weights[0], weights[1], rtol=1e-6)


def test_checkpoints_of_several_states(tmp_path: Path) -> None:
    net = paddle.nn.Linear(3, 4)
    adam = paddle.optimizer.Adam(0.1, parameters=net.parameters())
    net(paddle.ones([2, 3])).sum().backward()
    adam.step()
    path = str(tmp_path / "all.pdparams")
    given = {"model": net.state_dict(), "opt": adam.state_dict(), "epoch": 100, "more": [net.bias]}
    paddle.save(given, path)
    found = paddle.load(path)
    assert found["epoch"] == 100
    np.testing.assert_array_equal(found["model"]["weight"].numpy(), net.weight.numpy())
    np.testing.assert_array_equal(found["more"][0].numpy(), net.bias.numpy())
    other = paddle.nn.Linear(3, 4)
    other.set_state_dict(found["model"])
    np.testing.assert_array_equal(other.weight.numpy(), net.weight.numpy())
    adam.set_state_dict(found["opt"])
    arrays = paddle.load(path, return_numpy=True)
    assert isinstance(arrays["model"]["bias"], np.ndarray)


def test_halves_are_rounded_away_from_zero() -> None:
    values = np.array([-2.5, -0.5, -0.2, 0.49999997, 0.5, 1.5, 2.5, 7.3, 1e9], "float32")
    wanted = [-3.0, -1.0, 0.0, 0.0, 1.0, 2.0, 3.0, 7.0, 1e9]
    assert paddle.round(paddle.to_tensor(values)).tolist() == wanted
    x = paddle.to_tensor(values, stop_gradient=False)
    x.round().sum().backward()
    assert not x.grad.numpy().any()
    assert paddle.to_tensor(values).round_().tolist() == wanted


def test_parameters_that_are_made_lazily() -> None:
    with paddle.LazyGuard():
        layer = paddle.nn.Linear(3, 2)
    assert (layer.weight.shape, layer.weight.held) == ([3, 2], None)
    optimizer = paddle.optimizer.SGD(0.5, layer.parameters())
    copy = deepcopy(layer)
    for one in layer.parameters():
        one.initialize()
    assert copy.weight.held is None
    with pytest.raises(AssertionError, match="was made with its value"):
        layer.weight.initialize()
    before = layer.weight.numpy()
    layer(paddle.ones([4, 3])).mean().backward()
    optimizer.step()
    np.testing.assert_allclose(layer.weight.numpy(), before - 0.25)
    assert paddle.nn.Linear(3, 2).weight.held is not None


def test_transforms_ask_what_an_image_is() -> None:
    functional = paddle.vision.transforms.functional
    image = np.zeros((3, 4, 3), "uint8")
    assert functional._is_numpy_image(image)
    assert not functional._is_pil_image(image)
    assert not functional._is_tensor_image(image)
