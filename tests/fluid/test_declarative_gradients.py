"""Gradients of declarative functions: handed to parameters, and by autograd, to the bit."""

from __future__ import annotations

import gc
import random
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.eager.handed import Handed
from refluid.fluid import dygraph
from tests.choices import often

layers = fluid.layers
FLAG = "FLAGS_refluid_declarative_hands"
WORDS = 12


class Net(dygraph.Layer):
    """Some layers, of which a function takes a few, more than once."""

    def __init__(self, width: int, source: random.Random) -> None:
        super().__init__()
        self.parts = dygraph.LayerList([dygraph.Linear(width, width) for _ in range(3)])
        self.norm = dygraph.LayerNorm(width)
        self.words = dygraph.Embedding([WORDS, width], is_sparse=source.random() < 0.5)
        self.alone = self.create_parameter([width])
        self.used = source.choices(range(3), k=source.randint(0, 4))
        self.ways = [source.random() < 0.5 for _ in range(4)]

    @dygraph.declarative
    def forward(self, x: Any, ids: Any, beside: Any) -> Any:
        for number in self.used:
            x = layers.tanh(self.parts[number](x))
        if self.ways[0]:
            x = self.norm(x)
        if self.ways[1]:
            x = x + self.words(ids)
        if self.ways[2]:
            x = x * self.alone + self.alone
        if self.ways[3]:
            x = x * beside
        return x, layers.reduce_mean(x * x), self.alone


def gradients(seed: int, hands: bool) -> list[Any]:
    source, numbers = random.Random(seed), np.random.RandomState(seed)
    rows, width = source.randint(1, 6), source.randint(1, 9)
    with flags.override({FLAG: hands}), dygraph.guard():
        net, outer = Net(width, source), dygraph.Linear(width, width)
        for one in (*net.parameters(), *outer.parameters()):
            one.set_value(numbers.uniform(-0.5, 0.5, one.shape).astype("float32"))
        if source.random() < 0.3:
            net.parts[0].weight.trainable = False
        takes, computed, kind = source.random() < 0.3, source.random() < 0.3, source.randrange(5)
        losses, found = [], []
        for _ in range(source.choice([1, 2])):
            x = dygraph.to_variable(numbers.rand(rows, width).astype("float32"))
            x.stop_gradient = not takes
            ids = dygraph.to_variable(numbers.randint(0, WORDS, (rows,)))
            given = outer(x) if computed else x
            out, mean, alone = net(given, ids, x)
            loss = {
                0: lambda out=out: layers.reduce_sum(out),
                1: lambda mean=mean: mean,
                2: lambda out=out, mean=mean: mean + layers.reduce_sum(outer(out)),
                3: lambda mean=mean, alone=alone: mean + layers.reduce_sum(alone * alone),
                4: lambda mean=mean: mean,
            }[kind]()
            losses.append((x, loss))
        if not losses[0][1].stop_gradient and kind == 4:
            wanted = [one for one in (*net.parameters(), *outer.parameters()) if one.trainable]
            found += dygraph.grad(losses.pop()[1], wanted, allow_unused=True)
            found = [None if one is None else one.numpy() for one in found]
        for x, loss in losses:
            if not loss.stop_gradient:
                loss.backward()
                found += [loss.gradient()]
            found += [loss.numpy(), x.gradient()]
        both = [*net.parameters(), *outer.parameters()]
        return found + [
            None if one.gradient_value is None else dense(one.gradient_value) for one in both
        ]


def dense(value: Any) -> Any:
    return (value if isinstance(value, torch.Tensor) else value.to_dense()).numpy().copy()


@pytest.mark.parametrize("seed", often(range(60), range(30)))
def test_what_is_handed_is_what_autograd_brings(seed: int) -> None:
    for found, wanted in zip(gradients(seed, True), gradients(seed, False), strict=True):
        assert (found is None) == (wanted is None)
        if found is not None:
            np.testing.assert_array_equal(found, wanted)


class Small(dygraph.Layer):
    def __init__(self) -> None:
        super().__init__()
        self.weight = self.create_parameter([3])

    @dygraph.declarative
    def forward(self, x: Any) -> Any:
        return layers.reduce_sum(x * self.weight)


@pytest.mark.parametrize("hands", [True, False])
def test_gradients_belong_to_their_parameter_alone(hands: bool) -> None:
    with flags.override({FLAG: hands}), dygraph.guard():
        net = Small()
        x = dygraph.to_variable(np.ones(3, "float32"))
        for times in (1, 2, 3):
            net(x).backward()
            np.testing.assert_array_equal(net.weight.gradient(), np.full(3, 1.0 * times))
        np.testing.assert_array_equal(x.numpy(), np.ones(3))
        loss = net(x)
        loss.backward()
        with pytest.raises(EnforceNotMet, match="a second time"):
            loss.backward()


def test_gradients_of_gradients_beside_a_declarative_function() -> None:
    """What was computed by one may be differentiated, as long as nothing leads into it."""
    with dygraph.guard():
        net = Small()
        made = net(dygraph.to_variable(np.ones(3, "float32")))
        middle = made * 2.0 + 1.0
        (slope,) = dygraph.grad(middle * middle, [middle], create_graph=True, retain_graph=True)
        (slope * slope).backward()
        assert net.weight.gradient() is not None


def test_a_tensor_where_a_parameter_lay_is_promised_nothing() -> None:
    """Promises are to tensors, not to places in memory, which others get after them."""
    hands, gone = Handed(), torch.ones(3)
    hands.promise([gone])
    place = id(gone)
    assert hands.promised(gone)
    del gone
    others = [torch.ones(3) for _ in range(100)]
    assert place in map(id, others)
    assert not any(map(hands.promised, others)) and not hands.leads_to(others)


def test_a_run_without_backward_leaves_nothing_behind() -> None:
    with dygraph.guard():
        net = Small()
        x = dygraph.to_variable(np.ones(3, "float32"))
        for _ in range(6):
            net(x)
        gc.disable()
        try:
            value = weakref.ref(net(x).held)
            assert value() is None, "freed without the collector of cycles"
        finally:
            gc.enable()


def leaving(x: Any, w: Any) -> Any:
    """A loop that is left before the loop in it, whose rows then have no value."""
    y, rounds = x * w, 0
    while layers.reduce_mean(x) > -10.0 and rounds < 2:
        rounds = rounds + 1
        if layers.reduce_mean(x) < 10.0:
            break
        for row in x:
            y = y * 0.9 + row * 0.1
    return y


def test_what_no_round_made_has_no_gradient() -> None:
    found = []
    for function in (leaving, dygraph.declarative(leaving)):
        with dygraph.guard():
            x, w = (dygraph.to_variable(np.full([3, 2], one, "float32")) for one in (2.0, 3.0))
            x.stop_gradient = w.stop_gradient = False
            layers.reduce_sum(function(x, w)).backward()
            found.append((x.gradient().tolist(), w.gradient().tolist()))
    assert found[0] == found[1] == ([[3.0] * 2] * 3, [[2.0] * 2] * 3)


@dygraph.declarative
def _asked_as_array(x: Any, rounds: Any) -> tuple[Any, ...]:
    found, i = [], rounds * 0
    while i < rounds:
        i = i + 1
        found.append(x * layers.cast(i, "float32"))
    last = layers.array_length(array=found)
    layers.array_write(x * 5.0, last, found)
    joined, sizes = layers.tensor_array_to_tensor(input=found, axis=0)
    return layers.array_read(found, last), joined, sizes


def test_a_list_that_a_loop_fills_is_an_array_of_the_program() -> None:
    with dygraph.guard():
        x = dygraph.to_variable(np.ones([2], "float32"))
        x.stop_gradient = False
        read, joined, sizes = _asked_as_array(x, np.array([2], "int64"))
        (layers.reduce_sum(joined) + layers.reduce_sum(read)).backward()
        assert read.numpy().tolist() == [5.0, 5.0]
        assert joined.numpy().tolist() == [1.0, 1.0, 2.0, 2.0, 5.0, 5.0]
        assert sizes.numpy().tolist() == [2, 2, 2]
        assert x.gradient().tolist() == [13.0, 13.0]
