"""Updates that find the last step's gradients again: nobody can tell, whatever is done between."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.fluid import dygraph

FLAG = "FLAGS_refluid_eager_known_updates"
STEPS = 20


class Training:
    """A loop over three layers, of which some take part in a step, in an order of their own."""

    def __init__(self, seed: int) -> None:
        self.source, self.numbers = random.Random(seed), np.random.RandomState(seed)
        self.table = dygraph.Embedding([9, 4], is_sparse=self.source.random() < 0.5)
        self.first, self.second = dygraph.Linear(4, 4), dygraph.Linear(4, 4)
        layers = [self.table, self.first, self.second]
        self.params = [one for layer in layers for one in layer.parameters()]
        for one in self.params:
            one.set_value(self.numbers.uniform(-1, 1, one.shape).astype("float32"))
        kind = self.source.choice([fluid.optimizer.SGD, fluid.optimizer.Adagrad])
        clip = self.source.choice([None, fluid.clip.GradientClipByGlobalNorm(0.1)])
        self.optimizer = kind(0.1, parameter_list=self.params, grad_clip=clip)

    def some(self) -> Any:
        return self.source.choice(self.params)

    def freeze(self) -> None:
        one = self.some()
        one.stop_gradient = not one.stop_gradient

    def set_value(self) -> None:
        one = self.some()
        one.set_value(one.numpy() * 0.8)

    def clear_one(self) -> None:
        self.some().clear_gradient()

    def copy(self) -> None:
        self.second.weight.set_value(self.first.weight)

    def other_list(self) -> None:
        chosen = self.source.sample(self.params, self.source.randint(3, len(self.params)))
        self.optimizer._parameter_list = chosen

    def replace(self) -> None:
        one = self.some()
        one.value = one.value.detach().clone() * 0.7

    def load(self) -> None:
        self.first.set_dict({k: v.numpy() * 0.9 for k, v in self.first.state_dict().items()})

    def loss(self) -> Any:
        x = dygraph.to_variable(self.numbers.rand(3, 4).astype("float32"))
        ids = dygraph.to_variable(self.numbers.randint(0, 9, [3]))
        for use in self.source.sample([0, 1, 2], self.source.choice([1, 2, 3, 3, 3])):
            x = x + self.table(ids) if use == 0 else (self.first, self.second)[use - 1](x)
        return fluid.layers.mean(x * x)

    def between(self) -> None:
        while self.source.random() < 0.3:
            odd = [self.freeze, self.set_value, self.clear_one, self.copy, self.load]
            self.source.choice([*odd, self.replace, self.other_list])()

    def step(self) -> None:
        self.between()
        loss = self.loss()
        if loss.stop_gradient:
            return
        for _ in range(self.source.choice([1, 1, 1, 2])):
            loss = loss * 1.5
        loss.backward()
        self.between()
        self.optimizer.minimize(loss)
        if self.source.random() < 0.8:
            for one in self.params:
                one.clear_gradient()


def trained(seed: int, *, known: bool) -> list[np.ndarray]:
    with flags.override({FLAG: known}), dygraph.guard():
        loop, seen = Training(seed), []
        for _ in range(STEPS):
            loop.step()
            seen += [one.numpy().copy() for one in loop.params]
        return seen


@pytest.mark.parametrize("seed", range(24))
def test_random_loops_train_the_same(seed: int) -> None:
    found, wanted = trained(seed, known=True), trained(seed, known=False)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)
