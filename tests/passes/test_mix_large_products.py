"""Products by large float32 weights in mixed precision: the numbers of cast weights."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.engine.pipeline import BY_NAME
from refluid.engine.setting import Setting
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.kernels import mixed_products
from refluid.passes import mix_large_products
from tests.choices import often
from tests.kernels.panels import FLAG
from tests.passes.layered import Layered
from tests.passes.rewriting import passed
from tests.passes.texts import after

layers, optimizer = fluid.layers, fluid.optimizer
PASSES = "fuse_gemm_epilogue", "fuse_gemm_bias", "mix_large_products"
NEVER = 2**62


class Drawn(Layered):
    """A network of fully connected layers in mixed precision, chosen at random."""

    def __init__(self, seed: int) -> None:
        source = random.Random(f"mixed {seed}")
        self.main, self.startup = fluid.Program(), fluid.Program()
        self.main.random_seed = self.startup.random_seed = 7
        with fluid.program_guard(self.main, self.startup), fluid.unique_name.guard():
            x = fluid.data("x", [None, 3, 5])
            for _ in range(source.randint(1, 4)):
                x = self.layer(source, x)
            self.loss = layers.mean(layers.square(x))
            make = source.choice([optimizer.SGD, optimizer.Adam])
            scaling = {"init_loss_scaling": 8.0, "use_dynamic_loss_scaling": source.random() < 0.5}
            decorate(make(0.01), **scaling).minimize(self.loss)
        rng = np.random.default_rng(seed)
        self.feeds = [rng.random((n, 3, 5), "float32") for n in rng.integers(1, 9, 6)]
        # Else no operator but the updates computes the gradients.
        self.fuses, self.whole = source.random() < 0.5, source.random() < 0.5


def mixed(program: Any, **given: Any) -> int:
    """How many products are by weights as they are."""
    return len(passed(program, *PASSES, **given).reports["mix_large_products"].made)


@pytest.mark.parametrize("seed", often(range(40), range(8)))
def test_numbers_stay(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """By torch's kernels to the bit; by others but for rounding."""
    drawn = Drawn(seed)
    monkeypatch.setattr(mix_large_products, "_LARGE", NEVER)
    cast = drawn.trained(whole=drawn.whole)
    monkeypatch.setattr(mix_large_products, "_LARGE", 1)
    with flags.override({FLAG: False}):
        for name, value in drawn.trained(whole=drawn.whole).items():
            np.testing.assert_array_equal(value, cast[name], err_msg=name)
    for few in (0, 4, 100):
        monkeypatch.setattr(mixed_products, "_FEW", few)
        found = drawn.trained(whole=drawn.whole)["loss"]
        np.testing.assert_allclose(found, cast["loss"], rtol=0.05, atol=1e-4)


def test_drawn_networks_have_such_products(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mix_large_products, "_LARGE", 1)
    counts = [mixed(Drawn(seed).main) for seed in range(8)]
    assert all(counts) and sum(counts) > 20


def simple(more: Any = None, width: int = 4096, weights: Any = "w", **given: Any) -> Any:
    """A program of one large layer, whose weights are `w`."""
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 1024])
        found = layers.fc(layers.fc(x, 1024, act="relu"), width, param_attr=weights, **given)
        loss = layers.mean(found if more is None else more(found))
        decorate(optimizer.SGD(0.1)).minimize(loss)
    return main


def test_where_weights_stay_as_they_are() -> None:
    def twice(y: Any) -> Any:
        return y + layers.fc(layers.slice(y, [1], [0], [1024]), 4096, param_attr="w")

    assert mixed(simple()) == 2
    assert mixed(simple(act="relu")) == mixed(simple(bias_attr=False)) == 2
    assert not mixed(simple(width=4092))
    assert not mixed(simple(twice))
    assert not mixed(simple(), kept=["w.cast_fp16"])
    assert not mixed(simple(weights=fluid.ParamAttr("w", trainable=False)))


@pytest.mark.parametrize(("old", "new"), [("w: float32", "w: float64"), ("x: float16", "x: int8")])
def test_other_types_stay(old: str, new: str) -> None:
    text = (Path(__file__).parent / "cases/mix_large_products.txt").read_text(encoding="utf-8")
    before = text.split("\n->\n")[0]
    assert old in before and after(before, "mix_large_products")[1].reports
    with flags.override({"FLAGS_refluid_verify_passes": False}):
        done = after(before.replace(old, new), "mix_large_products")[1]
    (refusal,) = done.reports["mix_large_products"].refused
    assert refusal.reason == "w isn't cast from float32 to a half type"


def test_replicas_exchange_half_gradients() -> None:
    wanted = BY_NAME["mix_large_products"].wanted
    assert wanted(Setting()) and not wanted(Setting(replicas=2))
    assert not wanted(Setting(device=torch.device("cuda")))


def test_a_program_for_inference_too() -> None:
    assert mixed(simple().clone(for_test=True)) == 1
