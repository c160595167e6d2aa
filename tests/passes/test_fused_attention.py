"""Programs that attend, made at random, compute the same with `fuse_attention` and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.kernels import attention as kernels
from refluid.runtime.recorded.trial import compiling_at_once
from tests.choices import often
from tests.passes.rewriting import passed

FLAG = "FLAGS_refluid_fused_attention"
layers = fluid.layers


class Attending:
    """A program that is drawn: layers of attention of `x` to itself and to `memory`."""

    def __init__(self, seed: int) -> None:
        self.draws = np.random.default_rng(seed)
        self.heads, self.size = (int(n) for n in self.draws.integers(1, 5, size=2))
        self.dtype = "float64" if self.chance(0.3) else "float32"
        self.width = self.heads * self.size
        self.trains = self.chance(0.7)
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = 3
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            self.fetches = self._build()

    def chance(self, share: float) -> bool:
        return bool(self.draws.random() < share)

    def _build(self) -> list[str]:
        self.x = fluid.data("x", [None, None, self.width], self.dtype)
        self.memory = fluid.data("memory", [None, None, self.width], self.dtype)
        self.mask = fluid.data("mask", [None, 1, 1, None], self.dtype)
        self.order = fluid.data("order", [None, None], self.dtype)
        self.x.stop_gradient = self.memory.stop_gradient = False
        value = self.x
        for _ in range(self.draws.integers(1, 4)):
            value = value + self._attention(value, self.chance(0.5))
        loss = layers.mean(layers.square(value))
        if self.trains:
            fluid.optimizer.Adam(0.01).minimize(loss)
        grads = [f"{name}@GRAD" for name in ("x", "memory")]
        return [loss.name, value.name, *filter(self.main.global_block().has_var, grads)]

    def _heads(self, value: Any) -> Any:
        if self.chance(0.8):
            value = layers.fc(value, self.width, num_flatten_dims=2, bias_attr=self.chance(0.5))
        parted = layers.reshape(value, [0, 0, self.heads, self.size])
        if self.chance(0.2):
            return layers.transpose(parted, [0, 2, 1, 3]) * 0.5
        return layers.transpose(parted, [0, 2, 1, 3])

    def _attention(self, value: Any, inside: bool) -> Any:
        other = value if inside else self.memory
        asked, keys = self._heads(value), self._heads(other)
        shared = keys if self.chance(0.2) else None  # keys are values
        alpha = float(self.draws.choice([1.0, 0.5, self.size**-0.5]))
        scores = layers.matmul(asked, keys, transpose_y=True, alpha=alpha)
        if self.chance(0.7):
            scores = layers.elementwise_add(scores, self.order if inside else self.mask)
        weights = layers.softmax(scores)
        if self.chance(0.3):
            way = str(self.draws.choice(["upscale_in_train", "downgrade_in_infer"]))
            drops = 0.0 if self.trains else 0.2
            weights = layers.dropout(
                weights, drops, is_test=not self.trains, dropout_implementation=way
            )
        mixed = layers.matmul(weights, self._heads(other) if shared is None else shared)
        mixed = layers.reshape(layers.transpose(mixed, [0, 2, 1, 3]), [0, 0, self.width])
        return layers.fc(mixed, self.width, num_flatten_dims=2, act="tanh")

    def feed(self) -> dict[str, Any]:
        batch, length, keys = (int(n) for n in self.draws.integers(1, 7, size=3))
        order = np.triu(np.full([length, length], -1e9), 1)
        drawn = {
            "x": self.draws.standard_normal([batch, length, self.width]),
            "memory": self.draws.standard_normal([batch, keys, self.width]),
            "mask": self.draws.standard_normal([batch, 1, 1, keys]),
            "order": order,
        }
        used = self.main.global_block()
        return {
            name: one.astype(self.dtype)
            for name, one in drawn.items()
            if any(name in op.input_arg_names for op in used.ops)
        }


def compared(seed: int) -> int:
    """How many operators attend, once all results were compared."""
    network = Attending(seed)
    feeds = [one for one in (network.feed(), network.feed()) for _ in range(3)]
    found = []
    for fused in (True, False):
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        with flags.override({FLAG: fused}):
            exe.run(network.startup, scope=scope)
            found.append(
                [exe.run(network.main, feed, network.fetches, scope=scope) for feed in feeds]
            )
    close = 1e-9 if network.dtype == "float64" else 2e-4
    for step, (ours, plain) in enumerate(zip(*found, strict=True)):
        for name, one, known in zip(network.fetches, ours, plain, strict=True):
            np.testing.assert_allclose(one, known, close, close, err_msg=f"{name} of step {step}")
    fused = passed(network.main, "fuse_attention", kept=network.fetches).program
    return [op.type for op in fused.global_block().ops].count("attention_of_heads")


@pytest.mark.parametrize("first", often(range(0, 60, 15), [0, 15]))
def test_any_program(first: int) -> None:
    assert sum(compared(seed) for seed in range(first, first + 15)) > 15


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("seed", range(100, 112))
def test_compiled_programs(seed: int) -> None:
    with flags.override({"FLAGS_refluid_tier": "compiled"}), compiling_at_once():
        compared(seed)


def test_the_flag_switches_it_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of a program that has run."""
    called: list[Any] = []
    attention = kernels.attention

    def counted(*given: Any, **options: Any) -> Any:
        called.append(given)
        return attention(*given, **options)

    monkeypatch.setattr(kernels, "attention", counted)
    network = Attending(1)
    exe, scope, feed = fluid.Executor(fluid.CPUPlace()), fluid.Scope(), network.feed()
    exe.run(network.startup, scope=scope)
    for fused in (True, False):
        called.clear()
        with flags.override({FLAG: fused}):
            exe.run(network.main, feed, network.fetches, scope=scope)
        assert bool(called) is fused
