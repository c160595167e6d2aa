"""Training loops of a declarative function, with what may be done at odd times."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from refluid import fluid
from refluid.core import flags
from refluid.eager.waiting import waiting
from refluid.fluid import dygraph

layers = fluid.layers


class Net(dygraph.Layer):
    """Two results, of which both take gradients; a table with rows; statistics."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        self.table = dygraph.Embedding([11, 6], is_sparse=sparse)
        self.first = dygraph.Linear(6, 8, act="tanh")
        self.norm = dygraph.BatchNorm(8)
        self.second = dygraph.Linear(8, 1)

    @dygraph.declarative
    def forward(self, x: Any, ids: Any) -> Any:
        hidden = self.norm(self.first(x + self.table(ids)))
        out = self.second(hidden)
        return layers.mean(out * out - out), layers.mean(hidden * 0.3)


class Loop:
    """A training loop, with what may be done at odd times."""

    def __init__(self, seed: int) -> None:
        self.source, self.numbers = random.Random(seed), np.random.RandomState(seed)
        self.seen: list[Any] = []
        self.net = Net(self.source.random() < 0.4)
        self.trained = [one for one in self.net.parameters() if one.trainable]
        for one in self.trained:
            one.set_value(self.numbers.uniform(-0.5, 0.5, one.shape).astype("float32"))
        self.optimizer = self.make_optimizer()
        self.pairs: Any = None
        self.hooks: list[Any] = []
        self.arrays: Any = None

    def make_optimizer(self) -> Any:
        clip = self.source.choice([None, fluid.clip.GradientClipByGlobalNorm(0.05)])
        rate = self.source.choice([0.1, dygraph.ExponentialDecay(0.1, 3, 0.8)])
        kind = self.source.choice([fluid.optimizer.SGD, fluid.optimizer.Adagrad])
        decay = self.source.choice([None, fluid.regularizer.L2Decay(0.01)])
        given = {"parameter_list": self.net.parameters(), "grad_clip": clip}
        return kind(rate, regularization=decay, **given)

    def look(self, *values: Any) -> None:
        self.seen += [None if one is None else np.array(one) for one in values]

    def feed(self, rows: int) -> list[Any]:
        x = self.numbers.rand(rows, 6).astype("float32")
        self.arrays = [x, self.numbers.randint(0, 11, [rows])]
        # What runs part by part sees what becomes of an array whose memory it shares.
        shares = bool(flags.value("refluid_declarative_whole"))
        return [dygraph.to_variable(one, zero_copy=shares) for one in self.arrays]

    def gradients(self) -> None:
        for one in self.net.parameters():
            found = one.gradient()
            if isinstance(found, list):
                dense = np.zeros(one.shape, "float32")
                np.add.at(dense, found[1], found[0])
                found = dense
            self.look(found)

    def change_weight(self) -> None:
        one = self.source.choice(self.trained)
        one.set_value(one.numpy() * 0.9)

    def change_feed(self) -> None:
        if flags.value("refluid_declarative_whole") and waiting.now is None:
            return
        self.arrays[0] *= 0.0
        self.arrays[1][...] = 3

    def call_again(self) -> None:
        self.look(self.net(*self.feed(4))[0].numpy())

    def freeze(self) -> None:
        one = self.source.choice([one for one in self.trained if one is not self.net.second.weight])
        one.stop_gradient = not one.stop_gradient

    def hook(self) -> None:
        """Something sees, and changes, the gradient of a parameter from here on."""

        def halved(gradient: Any) -> Any:
            self.look(gradient.numpy())
            return gradient * 0.5

        one = self.source.choice([self.net.first.weight, self.net.second.weight])
        if self.hooks:
            self.hooks.pop().remove()
        elif not one.stop_gradient:
            self.hooks.append(one.register_hook(halved))

    def evaluate(self) -> None:
        self.net.eval()
        with dygraph.no_grad():
            self.look(self.net(*self.feed(3))[0].numpy())
        self.net.train()

    def other_optimizer(self) -> None:
        self.optimizer = self.make_optimizer()

    def keep(self) -> None:
        self.look(*(one.numpy() for one in copy.deepcopy(self.net).parameters()))
        self.look(self.optimizer.current_step_lr())

    def add_gradients(self) -> None:
        (self.net(*self.feed(5))[1] * 2.0).backward()

    def load(self) -> None:
        self.net.set_dict({k: v.numpy() * 0.95 for k, v in self.net.state_dict().items()})

    def slope(self) -> None:
        out = self.net(*self.feed(4))[0]
        found = dygraph.grad(out, [self.net.second.weight])
        self.look(found[0].numpy())


ODD: list[Callable[[Loop], Any]] = [
    Loop.gradients,
    Loop.change_weight,
    Loop.change_feed,
    Loop.call_again,
    Loop.freeze,
    Loop.hook,
    Loop.evaluate,
    Loop.other_optimizer,
    Loop.keep,
    Loop.add_gradients,
    Loop.load,
    Loop.slope,
    lambda loop: loop.look(loop.net.norm._mean.numpy()),
    lambda loop: loop.look(*(np.array(one) for one in loop.optimizer.state_dict().values())),
    lambda loop: loop.look(layers.uniform_random([2], seed=5).shape),
    lambda loop: loop.net.clear_gradients(),
    lambda loop: loop.optimizer.clear_gradients(),
]
