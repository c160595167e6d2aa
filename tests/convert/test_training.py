"""Training programs as PyTorch: a step of both changes the parameters alike."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.convert import folder as folders
from refluid.convert.checking import sample_feeds
from refluid.convert.table import NoCounterpart
from tests.convert.networks import Build, Built, classification, regression

opt = fluid.optimizer
OPTIMIZERS: dict[str, Callable[[], Any]] = {
    "SGD(model.parameters(), lr=0.1)": lambda: opt.SGD(0.1),
    "SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)": lambda: opt.Momentum(
        0.1, 0.9, regularization=fluid.regularizer.L2Decay(0.01)
    ),
    "SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)": lambda: opt.Momentum(
        0.1, 0.9, use_nesterov=True
    ),
    "Adam(model.parameters(), lr=0.01, betas=(0.9, 0.999), eps=1e-08)": lambda: opt.Adam(0.01),
    "Adagrad(model.parameters(), lr=0.1, eps=1e-06)": lambda: opt.Adagrad(0.1),
}


def both_trained(build: Build, optimizer: Callable[[], Any], steps: int) -> tuple[Any, Any, Built]:
    """The losses of Fluid's steps and of PyTorch's, and Fluid's network after them."""
    net = Built(build, optimizer)
    converted = folders.convert(net.source())
    space: dict[str, Any] = {}
    exec(converted.text, space)
    model = converted.model.train()
    stepper = space["make_optimizer"](model)
    losses: tuple[list[float], list[float]] = [], []
    for step in range(steps):
        feed = sample_feeds(converted.source, rows=4, seed=step)
        (value,) = net.executor.run(net.main, feed, net.targets, scope=net.scope)
        losses[0].append(float(value.item()))
        stepper.zero_grad()
        loss = model(*(torch.from_numpy(feed[name]) for name in converted.source.feeds))
        loss.backward()
        stepper.step()
        losses[1].append(loss.item())
    after, state = net.values(), model.state_dict()
    for key, origin in converted.written.origins.items():
        if not key.endswith("running_var"):  # of which PyTorch has the unbiased estimate
            expected = origin.weight.of(after[origin.weight.name])
            torch.testing.assert_close(state[key], expected, rtol=1e-3, atol=1e-6)
    return *losses, net


@pytest.mark.parametrize("text", OPTIMIZERS)
def test_optimizers(text: str) -> None:
    net = Built(regression, OPTIMIZERS[text])
    assert text in folders.convert(net.source()).text
    ours, theirs, _ = both_trained(regression, OPTIMIZERS[text], 5)
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)


def test_normalised_networks_train_alike() -> None:
    ours, theirs, _ = both_trained(classification, lambda: opt.SGD(0.05), 4)
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)


def test_a_schedule_is_said() -> None:
    rate = lambda: opt.SGD(fluid.layers.exponential_decay(0.1, 10, 0.5))  # noqa: E731
    text = folders.convert(Built(regression, rate).source()).text
    assert "lr=0.1)" in text and "torch.optim.lr_scheduler" in text


def test_clipping_is_said() -> None:
    clip = fluid.clip.GradientClipByGlobalNorm(1.0)
    text = folders.convert(Built(regression, lambda: opt.SGD(0.1, grad_clip=clip)).source()).text
    assert "clip_grad_norm_" in text


def test_optimizers_that_pytorch_lacks() -> None:
    with pytest.raises(NoCounterpart, match="optimizer ftrl"):
        folders.convert(Built(regression, lambda: opt.Ftrl(0.1)).source())
