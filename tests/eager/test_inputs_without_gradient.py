"""What Fluid gives no gradient is left alone: the graph that it came from isn't walked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.fluid import dygraph

layers = fluid.layers


def _soft(logits: Any, label: Any) -> Any:
    return layers.softmax_with_cross_entropy(logits, label, soft_label=True)


# Losses of (what is learned, what it should be), of which Fluid gives the second no gradient.
LOSSES: dict[str, Callable[[Any, Any], Any]] = {
    "kldiv": lambda x, y: layers.kldiv_loss(layers.log_softmax(x), y, reduction="batchmean"),
    "soft labels": _soft,
    "cross entropy": lambda x, y: layers.cross_entropy(layers.softmax(x), y, soft_label=True),
}


@pytest.fixture(params=[True, False])
def direct(request: Any) -> Any:
    with flags.override({"FLAGS_refluid_eager_direct": request.param}), dygraph.guard():
        yield request.param


def _logits(seed: int) -> Any:
    value = np.random.RandomState(seed).uniform(-1, 1, (3, 4)).astype("float32")
    made = dygraph.to_variable(value)
    made.stop_gradient = False
    return made


@pytest.mark.parametrize("kind", LOSSES)
def test_two_networks_learn_from_each_other(kind: str, direct: bool) -> None:
    """Each is the other's label; the gradients are those of labels that are constants."""
    loss = LOSSES[kind]
    first, second = _logits(0), _logits(1)
    outs = [layers.scale(one, 2.0) for one in (first, second)]
    each = [layers.softmax(out) for out in outs]
    losses = [layers.mean(loss(outs[n], each[1 - n])) for n in (0, 1)]
    losses[0].backward()
    assert second.gradient() is None
    losses[1].backward()
    for n, variable in enumerate((first, second)):
        alone = _logits(n)
        label = dygraph.to_variable(each[1 - n].numpy())
        layers.mean(loss(layers.scale(alone, 2.0), label)).backward()
        np.testing.assert_allclose(variable.gradient(), alone.gradient(), rtol=1e-6)


def test_a_loss_of_constants_has_none_to_give(direct: bool) -> None:
    x = dygraph.to_variable(np.ones((3, 4), "float32"))
    label = _logits(0)
    loss = layers.mean(layers.kldiv_loss(x, layers.softmax(label)))
    (loss + layers.mean(label)).backward()
    np.testing.assert_allclose(label.gradient(), np.full((3, 4), 1 / 12), rtol=1e-6)
