"""Updates of large weights tile by tile: the numbers of gradients as a whole, at any size."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid import fluid
from refluid.ops.optimizer import by_tiles
from refluid.passes import update_by_tiles
from tests.choices import often
from tests.kernels.panels import always_by_panels
from tests.passes.layered import Layered
from tests.passes.rewriting import passed

layers, optimizer = fluid.layers, fluid.optimizer
L2 = fluid.regularizer.L2Decay
MAKERS: dict[str, Any] = {
    "sgd": lambda **given: optimizer.SGD(0.1, **given),
    "momentum": lambda **given: optimizer.Momentum(0.1, 0.8, **given),
    "without momentum": lambda **given: optimizer.Momentum(0.1, 0.0, **given),
    "nesterov": lambda **given: optimizer.Momentum(0.1, 0.8, use_nesterov=True, **given),
    "adam": lambda **given: optimizer.Adam(0.01, **given),
    "adagrad": lambda **given: optimizer.Adagrad(0.1, **given),
}
TILED = {"sgd_by_tiles", "momentum_by_tiles", "adam_by_tiles"}


class Drawn(Layered):
    """A network of fully connected layers and an optimizer, chosen at random."""

    def __init__(self, name: str, seed: int) -> None:
        source = random.Random(f"{name} {seed}")
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 3, 5])
            for _ in range(source.randint(1, 4)):
                x = self.layer(source, x)
            self.loss = layers.mean(layers.square(x))
            clips = [None, None, fluid.clip.GradientClipByGlobalNorm(0.1)]
            decays = [None, L2(0.1), fluid.regularizer.L1Decay(0.1)]
            given = {"grad_clip": source.choice(clips), "regularization": source.choice(decays)}
            self.pairs = MAKERS[name](**given).minimize(self.loss)[1]
        rng = np.random.default_rng(seed)
        self.feeds = [rng.random((n, 3, 5), "float32") for n in rng.integers(1, 9, 6)]

    def layer(self, source: random.Random, x: Any) -> Any:
        given: dict[str, Any] = {"act": source.choice([None, "relu", "tanh", "sigmoid"])}
        if source.random() < 0.3:
            given["bias_attr"] = False
        if source.random() < 0.2:
            given["param_attr"] = fluid.ParamAttr("shared")
            x = layers.fc(x, 4)
        if len(x.shape) == 3 and source.random() < 0.5:
            given["num_flatten_dims"] = 2
        width = 4 if "param_attr" in given else source.randint(1, 40)
        found = layers.fc(x, width, **given)
        return layers.dropout(found, 0.0) if source.random() < 0.2 else found


def tiled(program: Any, **given: Any) -> list[str]:
    """Types of the operators that updates by tiles became."""
    names = ("fuse_gemm_bias", "fold_weight_decay", "update_by_tiles")
    ops = passed(program, *names, **given).program.global_block().ops
    return [op.type for op in ops if op.type in TILED]


@pytest.mark.parametrize("seed", often(range(8), [0, 1, 2]))
@pytest.mark.parametrize("name", MAKERS)
def test_numbers_stay(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, source = Drawn(name, seed), random.Random(seed)
    whole = drawn.trained(whole=True)
    monkeypatch.setattr(update_by_tiles, "_LARGE", 1)
    monkeypatch.setattr(by_tiles, "_TILE", source.choice([1, 30, 100]))
    monkeypatch.setattr(by_tiles, "_LEAST", source.choice([1, 2, 7]))
    monkeypatch.setattr(by_tiles, "_MOST", source.choice([3, 1000]))
    if source.random() < 0.5:  # by a right factor that all tiles share
        always_by_panels(monkeypatch)
    found = drawn.trained()
    seen = [gradient.name for _, gradient in drawn.pairs]
    for one in (found, drawn.trained(*seen[: len(seen) // 2])):
        for key, value in whole.items():
            np.testing.assert_allclose(one[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


def test_tiles_are_multiplied_by_a_factor_that_is_laid_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entered = always_by_panels(monkeypatch)
    monkeypatch.setattr(update_by_tiles, "_LARGE", 1)
    monkeypatch.setattr(by_tiles, "_TILE", 1)
    monkeypatch.setattr(by_tiles, "_LEAST", 7)
    Drawn("momentum", 1).trained()
    assert entered["multiply_right"]


def test_drawn_networks_have_updates_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update_by_tiles, "_LARGE", 1)
    for name in ("sgd", "momentum", "adam"):
        found = {one for seed in range(3) for one in tiled(Drawn(name, seed).main)}
        assert found == {f"{name}_by_tiles"}


def simple(more: Any = None, **given: Any) -> tuple[Any, Any]:
    """A program of one large layer, whose weights are `w`, and what it is started by."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 1024])
        found = layers.fc(layers.fc(x, 2048, param_attr="w", act="relu"), 2)
        loss = layers.mean(found if more is None else more(found, x))
        optimizer.Momentum(0.1, 0.9, **given).minimize(loss)
    return main, startup


def test_where_updates_are_by_tiles() -> None:
    def twice(y: Any, x: Any) -> Any:
        return y + layers.reduce_mean(layers.fc(x, 2048, param_attr="w"))

    plain, _ = simple()
    assert tiled(plain) == ["momentum_by_tiles"]
    assert tiled(simple(regularization=L2(0.1))[0]) == ["momentum_by_tiles"]
    assert not tiled(plain, kept=["w@GRAD"])
    assert not tiled(simple(grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))[0])
    assert not tiled(simple(twice)[0])
    assert not tiled(simple(regularization=fluid.regularizer.L1Decay(0.1))[0])


@pytest.mark.parametrize(("option", "times"), [(None, 1), (True, 1), (False, 0)])
def test_an_option_leaves_gradients_whole(
    option: bool | None, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, update = list[int](), by_tiles._update

    def noted(x: Any, *given: Any) -> Any:
        rows.append(len(x))
        return update(x, *given)

    monkeypatch.setattr(by_tiles, "_update", noted)
    main, startup = simple()
    options = fluid.BuildStrategy()
    options.memory_optimize = option
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        run = fluid.CompiledProgram(main, build_strategy=options)
        exe.run(run, feed={"x": np.ones((3, 1024), "float32")})
    assert rows == [3] * times
