"""Updates of large weights tile by tile in mixed precision: the numbers of whole gradients."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.kernels import mixed_products
from refluid.ops.optimizer import by_tiles
from refluid.passes import mix_large_products
from tests.choices import often
from tests.kernels.panels import FLAG
from tests.passes.layered import Layered
from tests.passes.rewriting import passed

layers, optimizer = fluid.layers, fluid.optimizer
L2 = fluid.regularizer.L2Decay
MAKERS: dict[str, Any] = {
    "sgd": lambda **given: optimizer.SGD(0.1, **given),
    "momentum": lambda **given: optimizer.Momentum(0.1, 0.8, **given),
    "adam": lambda **given: optimizer.Adam(0.01, **given),
    "adagrad": lambda **given: optimizer.Adagrad(0.1, **given),
}
PASSES = "fuse_gemm_epilogue", "fuse_gemm_bias", "mix_large_products", "fold_weight_decay"
TILES = "update_mixed_by_tiles"


class Drawn(Layered):
    """A network of fully connected layers in mixed precision and an optimizer, chosen at random."""

    def __init__(self, name: str, seed: int) -> None:
        source = random.Random(f"mixed {name} {seed}")
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 3, 5])
            for _ in range(source.randint(1, 4)):
                x = self.layer(source, x)
            self.loss = layers.mean(layers.square(x))
            clips = [None, None, fluid.clip.GradientClipByGlobalNorm(0.1)]
            given = {"grad_clip": source.choice(clips), "regularization": L2(0.1)}
            made = MAKERS[name](**given if source.random() < 0.4 else {})
            # Scales that grow in every other step, and fall where a feed is too much.
            how = {"incr_every_n_steps": 2, "decr_every_n_nan_or_inf": 1, "decr_ratio": 0.8}
            decorate(made, init_loss_scaling=8.0, incr_ratio=2.0, **how).minimize(self.loss)
        rng = np.random.default_rng(seed)
        self.feeds = [rng.random((n, 3, 5), "float32") for n in rng.integers(1, 9, 8)]
        self.feeds[source.randint(2, 6)][0, 1, 2] = source.choice([np.inf, np.nan, -np.inf, 1.0])
        self.fuses = source.random() < 0.5


def tiled(program: Any, **given: Any) -> list[str]:
    """Types of the operators that updates by tiles became."""
    return passed(program, *PASSES, TILES, **given).reports[TILES].made


@pytest.mark.parametrize("seed", often(range(16), [0, 1, 2]))
@pytest.mark.parametrize("name", MAKERS)
def test_numbers_stay(name: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch's products to the digits of float32; steps that overflow change nothing."""
    monkeypatch.setattr(mix_large_products, "_LARGE", 1)
    drawn, source = Drawn(name, seed), random.Random(seed)
    for torchs in (True, False):
        with flags.override({FLAG: not torchs}):
            whole = drawn.trained(whole=True)
            with monkeypatch.context() as patch:
                patch.setattr(by_tiles, "_TILE", source.choice([1, 30, 100]))
                patch.setattr(by_tiles, "_LEAST", source.choice([1, 2, 7]))
                patch.setattr(by_tiles, "_MOST", source.choice([3, 1000]))
                patch.setattr(mixed_products, "_SURELY", source.choice([0.0, 1e38]))
                found = drawn.trained()
        for key, value in whole.items():
            assert key == "loss" or np.isfinite(value).all(), key
            np.testing.assert_allclose(found[key], value, rtol=1e-4, atol=1e-6, err_msg=key)


def test_drawn_networks_have_updates_by_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mix_large_products, "_LARGE", 1)
    for name in ("sgd", "momentum", "adam"):
        found = {one for seed in range(3) for one in tiled(Drawn(name, seed).main)}
        assert found == {f"{name}_by_tiles"}


def simple(more: Any = None, fetched: bool = False, **given: Any) -> tuple[Any, Any, Any]:
    """A program of one large layer, whose weights are `w`, its startup program and the loss."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 1024])
        found = layers.fc(layers.fc(x, 8), 4096, act="relu")
        found = layers.fc(found, 2048, param_attr="w")
        loss = layers.mean(found)
        decorate(optimizer.Momentum(0.1, 0.9, **given)).minimize(loss)
        if more is not None:
            more(main)
    return main, startup, loss


def test_where_updates_are_by_tiles() -> None:
    def overwrites(main: Any) -> None:
        gemms = [op.type for op in main.global_block().ops if op.type == "mul_grad"]
        assert gemms
        block = main.global_block()
        place = next(n for n, op in enumerate(block.ops) if op.type == "check_finite_and_unscale")
        block._insert_op(
            place, type="scale", inputs={"X": ["w"]}, outputs={"Out": ["w"]}, attrs={"scale": 2.0}
        )

    plain, *_ = simple()
    assert tiled(plain) == ["momentum_by_tiles"]
    assert tiled(simple(regularization=L2(0.1))[0]) == ["momentum_by_tiles"]
    assert not tiled(plain, kept=["w@GRAD"])
    assert not tiled(simple(grad_clip=fluid.clip.GradientClipByGlobalNorm(1.0))[0])
    assert not tiled(simple(overwrites)[0])


def test_reasons_are_told() -> None:
    done = passed(simple()[0], *PASSES, TILES, kept=["w@GRAD"])
    (refusal,) = done.reports[TILES].refused
    assert refusal.reason == "w@GRAD is fetched or kept"


@pytest.mark.parametrize(("option", "times"), [(None, 1), (True, 1), (False, 0)])
def test_an_option_leaves_gradients_whole(
    option: bool | None, times: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, update = list[int](), by_tiles._update

    def noted(x: Any, *given: Any) -> Any:
        rows.append(len(x))
        return update(x, *given)

    monkeypatch.setattr(by_tiles, "_update", noted)
    main, startup, loss = simple()
    options = fluid.BuildStrategy()
    options.memory_optimize = option
    with fluid.scope_guard(fluid.Scope()):
        exe = fluid.Executor(fluid.CPUPlace())
        exe.run(startup)
        run = fluid.CompiledProgram(main, build_strategy=options)
        exe.run(run, feed={"x": np.ones((3, 1024), "float32")}, fetch_list=[loss])
    assert rows == [3] * times
