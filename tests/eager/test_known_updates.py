"""Updates that find the last step's gradients again: nobody can tell, whatever is done between.

Those of SGD, Momentum and Adam are then calls prepared for what stays (`eager/steady.py`).
"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import events, flags
from refluid.fluid import dygraph
from refluid.ops.optimizer.steady import Powers
from refluid.paddle import optimizer as paddle2
from tests.choices import often

FLAG = "FLAGS_refluid_eager_known_updates"
STEPS = 16


def fluids(kind: Any, *given: Any, **more: Any) -> Any:
    def made(params: Any, clip: Any) -> Any:
        return kind(0.1, *given, parameter_list=params, grad_clip=clip, **more)

    return made


OPTIMIZERS = [
    fluids(fluid.optimizer.SGD),
    fluids(fluid.optimizer.Adagrad),
    fluids(fluid.optimizer.Momentum, 0.9),
    fluids(fluid.optimizer.Adam),
    fluids(fluid.optimizer.Momentum, 0.9, regularization=fluid.regularizer.L2Decay(0.3)),
    fluids(fluid.optimizer.Adagrad, regularization=fluid.regularizer.L2Decay(0.3)),
    lambda params, _: paddle2.Adam(0.1, parameters=params),
    lambda params, _: paddle2.Momentum(0.1, 0.8, params, use_nesterov=True),
]


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
        clip = self.source.choice([None, None, fluid.clip.GradientClipByGlobalNorm(0.1)])
        self.optimizer = self.source.choice(OPTIMIZERS)(self.params, clip)

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
        one.held = one.held.detach().clone() * 0.7

    def other_rate(self) -> None:
        self.optimizer._learning_rate = self.source.choice([0.1, 0.03, 0.7])

    def load_state(self) -> None:
        state = self.state()
        some = self.source.sample(sorted(state), self.source.randint(0, len(state)))
        self.optimizer.set_dict({name: state[name].numpy() * 0.9 for name in some})

    def change_state(self) -> None:
        for _, one in sorted(self.state().items()):
            if self.source.random() < 0.3:
                one.set_value(one.numpy() * 0.95)

    def state(self) -> dict[str, Any]:
        return {k: v for k, v in self.optimizer.state_dict().items() if hasattr(v, "numpy")}

    def transposed_gradient(self) -> None:
        one = self.some()
        if one.held.grad is not None and one.held.dim() == 2:
            one.held.grad = one.held.grad.t().contiguous().t()

    def load(self) -> None:
        self.first.set_dict({k: v.numpy() * 0.9 for k, v in self.first.state_dict().items()})

    def loss(self) -> Any:
        x = dygraph.to_variable(self.numbers.rand(3, 4).astype("float32"))
        ids = dygraph.to_variable(self.numbers.randint(0, 9, [3]))
        for use in self.source.sample([0, 1, 2], self.source.choice([1, 2, 3, 3, 3])):
            x = x + self.table(ids) if use == 0 else (self.first, self.second)[use - 1](x)
        return fluid.layers.mean(x * x)

    def update_by_others(self) -> None:
        """By gradients that aren't the parameters' own."""
        some = self.source.sample(self.params, self.source.randint(1, len(self.params)))
        grads = [self.numbers.uniform(-1, 1, one.shape).astype("float32") for one in some]
        pairs = zip(some, map(dygraph.to_variable, grads), strict=True)
        self.optimizer.apply_gradients([*pairs])

    def between(self) -> None:
        while self.source.random() < 0.3:
            odd = [self.freeze, self.set_value, self.clear_one, self.copy, self.load]
            state = [self.load_state, self.change_state, self.other_rate, self.transposed_gradient]
            rest = [self.replace, self.other_list, self.update_by_others]
            self.source.choice([*odd, *state, *rest])()

    def step(self) -> None:
        self.between()
        loss = self.loss()
        if loss.stop_gradient:
            return
        for _ in range(self.source.choice([1, 1, 1, 2])):
            loss = loss * 1.5
        loss.backward()
        self.between()
        if self.source.random() < 0.8:
            self.optimizer.minimize(loss)
        else:
            self.optimizer.apply_gradients(self.optimizer.backward(loss))
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


@pytest.mark.filterwarnings("ignore:grad and param do not obey the gradient layout contract")
@pytest.mark.parametrize("seed", often(range(24), range(12)))
def test_random_loops_train_the_same(seed: int) -> None:
    found, wanted = trained(seed, known=True), trained(seed, known=False)
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def steadily(optimizer: Any) -> bool:
    """Whether the latest update is done by prepared calls."""
    steady = optimizer._at_once.latest.steady
    return steady is not None and steady.can()


@pytest.mark.parametrize("make", OPTIMIZERS)
def test_which_updates_are_prepared(make: Any) -> None:
    clip = fluid.clip.GradientClipByGlobalNorm(0.1)
    for given in (None, clip):
        with dygraph.guard():
            layer = dygraph.Linear(3, 2)
            optimizer = make(layer.parameters(), given)
            for _ in range(3):
                fluid.layers.mean(layer(dygraph.to_variable(np.ones((2, 3), "float32")))).backward()
                optimizer.minimize(fluid.layers.mean(layer.bias))
            names = {op.type for op in optimizer._at_once.latest.main.global_block().ops}
            assert steadily(optimizer) == (names <= {"sgd", "momentum", "adam", "adam_v2"})
            former = events.keep(events.Log())
            assert not steadily(optimizer)
            events.keep(former)


@pytest.mark.parametrize("kind", ["SGD", "Momentum", "Adam"])
def test_decay_is_prepared_with_the_update(kind: str) -> None:
    given, maker = [0.9] if kind == "Momentum" else [], getattr(fluid.optimizer, kind)
    decay = fluid.regularizer.L2Decay(0.3)
    with dygraph.guard():
        layers = dygraph.Linear(3, 2), dygraph.Linear(3, 2)
        layers[1].set_dict(layers[0].state_dict())
        made, plain = (
            fluids(maker, *given, regularization=one)(layer.parameters(), None)
            for one, layer in zip((decay, None), layers, strict=True)
        )
        for number in range(5):
            x = dygraph.to_variable(np.full((2, 3), number, "float32"))
            for layer in layers:
                layer.clear_gradients()
                fluid.layers.mean(fluid.layers.square(layer(x))).backward()
            slopes = [one.gradient().copy() for one in layers[0].parameters()]
            made.minimize(fluid.layers.mean(x))
            pairs = plain.backward(fluid.layers.mean(x))
            plain.apply_gradients([(one, grad + 0.3 * one) for one, grad in pairs])
            params = (layer.parameters() for layer in layers)
            for one, other, slope in zip(*params, slopes, strict=True):
                np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-5, atol=1e-7)
                np.testing.assert_array_equal(one.gradient(), slope)
        ops = made._at_once.latest.main.global_block().ops
        assert [op.type for op in ops] == [kind.lower()] * 2 and steadily(made)


def test_parameters_whose_memory_is_another_are_trained() -> None:
    with dygraph.guard():
        layer = dygraph.Linear(3, 2)
        optimizer = fluid.optimizer.SGD(0.5, parameter_list=layer.parameters())
        for _ in range(5):
            loss = fluid.layers.mean(layer.bias)
            loss.backward()
            before = layer.bias.numpy()
            optimizer.minimize(loss)
            layer.clear_gradients()
            np.testing.assert_allclose(layer.bias.numpy(), before - 0.25)
            layer.bias.held.data = layer.bias.held.detach().clone()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("factor", [0.9, 0.999, 0.9990000128746033, 0.3])
def test_powers_are_those_of_torch(dtype: torch.dtype, factor: float) -> None:
    tensors = [torch.full((1,), factor, dtype=dtype) for _ in range(3)]
    others = [one.clone() for one in tensors]
    powers = Powers(tensors, factor)
    for _ in range(3000):
        power = powers.common()
        assert power is not None
        powers.multiply(power)
        for one in others:
            one.mul_(factor)
    assert torch.equal(torch.cat(tensors), torch.cat(others))
    tensors[1].add_(1.0)
    assert powers.common() is None
