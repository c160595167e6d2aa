"""Updates of tensors that stay are those of any: nobody can tell, whatever is done between."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core import flags
from refluid.runtime.known_updates import KnownUpdates
from tests.choices import often

STEPS = 14
OPTIMIZERS = [
    lambda rate: fluid.optimizer.SGD(rate),
    lambda rate: fluid.optimizer.Momentum(rate, 0.9),
    lambda rate: fluid.optimizer.Momentum(rate, 0.7, use_nesterov=True),
    lambda rate: fluid.optimizer.Adam(rate),
    lambda rate: fluid.optimizer.Adam(rate, lazy_mode=True),
]


class Training:
    """A network drawn at random, and steps of it, between which its variables are changed."""

    def __init__(self, seed: int) -> None:
        self.draws = np.random.default_rng(seed)
        self.main, startup = fluid.Program(), fluid.Program()
        self.main.random_seed = startup.random_seed = seed + 1
        sparse = bool(self.draws.random() < 0.6)
        with fluid.program_guard(self.main, startup), fluid.unique_name.guard():
            ids = fluid.data("ids", [None, 1], "int64")
            rows = [fluid.embedding(ids, [9, 4], is_sparse=sparse) for _ in range(3)]
            x = fluid.layers.reshape(fluid.layers.concat(rows, 2), [-1, 12])
            for _ in range(int(self.draws.integers(1, 4))):
                x = fluid.layers.fc(x, int(self.draws.integers(1, 7)), act="tanh")
            loss = fluid.layers.mean(fluid.layers.square(x))
            rate: Any = 0.1
            if self.draws.random() < 0.3:
                rate = fluid.layers.exponential_decay(0.1, 3, 0.8)
            OPTIMIZERS[int(self.draws.integers(len(OPTIMIZERS)))](rate).minimize(loss)
        self.loss, self.exe = loss, fluid.Executor()
        self.scopes = [fluid.Scope(), fluid.Scope()]
        for scope in self.scopes:
            self.exe.run(startup, scope=scope)
        self.scope = self.scopes[0]
        self.names = sorted(one.name for one in self.main.list_vars() if one.persistable)

    def some(self) -> Any:
        name = self.names[int(self.draws.integers(len(self.names)))]
        return self.scope.find_var(name)

    def set(self) -> None:
        tensor = self.some().get_tensor()
        value = np.array(tensor)
        scaled = value * 0.9 if value.dtype.kind == "f" else value
        tensor.set(scaled.astype(value.dtype), fluid.CPUPlace())

    def write(self) -> None:
        value = self.some().value
        if value.is_floating_point():
            value.mul_(0.95)

    def replace(self) -> None:
        cell = self.some()
        cell.value = cell.value.clone()

    def replace_all(self) -> None:
        for name in self.names:
            cell = self.scope.find_var(name)
            cell.value = cell.value.clone()

    def turn(self) -> None:
        cell = self.some()
        if cell.value.dim() == 2:
            cell.value = cell.value.t().contiguous().t()

    def other_memory(self) -> None:
        for name in self.names:
            value = self.scope.find_var(name).value
            value.data = value.clone()

    def swap(self) -> None:
        self.scope = self.scopes[self.scope is self.scopes[0]]

    def step(self) -> Any:
        changes = [self.set, self.write, self.replace, self.replace_all, self.turn]
        while self.draws.random() < 0.25:
            changes = [*changes, self.other_memory, self.swap]
            changes[int(self.draws.integers(len(changes)))]()
        size = [3, 3, 3, 5][int(self.draws.integers(4))]
        feed = {"ids": self.draws.integers(0, 9, (size, 1))}
        (loss,) = self.exe.run(self.main, feed, [self.loss], scope=self.scope)
        return loss

    def state(self) -> list[Any]:
        return [
            np.array(scope.find_var(name).get_tensor())
            for scope in self.scopes
            for name in self.names
        ]


def trained(seed: int, **settings: Any) -> list[Any]:
    with flags.override({f"FLAGS_refluid_{name}": value for name, value in settings.items()}):
        training = Training(seed)
        losses = [training.step() for _ in range(STEPS)]
        return [*losses, *training.state()]


@pytest.mark.parametrize("tier", ["interpreted", "recorded"])
@pytest.mark.parametrize("seed", often(range(30), range(10)))
def test_numbers_are_the_same(seed: int, tier: str) -> None:
    known = trained(seed, tier=tier)
    plain = trained(seed, tier=tier, known_updates=False)
    assert len(known) == len(plain)
    for found, wanted in zip(known, plain, strict=True):
        np.testing.assert_array_equal(found, wanted)


def test_it_is_prepared_when_all_come_again_and_once() -> None:
    prepared: list[dict[str, Any]] = []
    done: list[str] = []

    def prepare(kept: dict[str, Any], **options: Any) -> Any:
        prepared.append(kept)
        assert options == {"mu": 0.5}
        return lambda grads, rate: done.append(f"known {len(grads)} {rate}")

    def many(*lists: Any, **options: Any) -> None:
        assert len(lists) == 4
        assert options == {"mu": 0.5}
        done.append("any")

    call = KnownUpdates(many, prepare, ["Param", "Grad", "V", "LearningRate"], len)
    params, others = [torch.ones(1), torch.ones(1)], [torch.ones(1), torch.ones(1)]
    for velocity in (params, others, others, others, params, params):
        call([*params], [1, 2], [*velocity], [3, 3], mu=0.5)
    assert done == ["any", "any", "known 2 2", "known 2 2", "any", "known 2 2"]
    assert [one["V"][0] is others[0] for one in prepared] == [True, False]


def test_what_a_prepared_call_refuses_is_done_as_ever() -> None:
    done: list[str] = []
    call = KnownUpdates(
        lambda *_: done.append("any"),
        lambda _: lambda grads, _: grads[0] > 0,
        ["Grad", "Param", "LearningRate"],
        list,
    )
    param = torch.ones(1)
    for gradient in (1, 1, -1, 1):
        call([gradient], [param], [2])
    assert done == ["any", "any"]


def test_one_rate_is_for_all_or_none_is_known() -> None:
    """Parameters of other learning rates in one batch are updated by their own."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 3])
        slow = fluid.ParamAttr(name="slow", learning_rate=0.5)
        y = fluid.layers.fc(fluid.layers.fc(x, 4, param_attr=slow), 1, param_attr="fast")
        loss = fluid.layers.mean(y)
        fluid.optimizer.SGD(0.1).minimize(loss)
    states = []
    for known in (True, False):
        exe, scope = fluid.Executor(), fluid.Scope()
        with flags.override({"FLAGS_refluid_known_updates": known}):
            exe.run(startup, scope=scope)
            for _ in range(6):
                exe.run(main, {"x": np.ones((2, 3), "float32")}, [loss], scope=scope)
        states.append([np.array(scope.find_var(name).get_tensor()) for name in ("slow", "fast")])
    for found, wanted in zip(*states, strict=True):
        np.testing.assert_array_equal(found, wanted)
