"""Gradients of filters by panels are the gradients, of any sizes, where they are faster."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.kernels import faster
from refluid.kernels.compiled import CompiledLoop
from refluid.kernels.panels import filters, loops, product, tiles, windows
from refluid.kernels.products import limits
from refluid.ops.nn.convolution import conv2d_grad
from tests.kernels.panels import FLAG, always_by_panels

Pair = tuple[int, int]


class Drawn:
    """A convolution of sizes drawn at random, whose windows may leave pixels out, which are NaN."""

    def __init__(self, seed: int) -> None:
        draws = random.Random(seed)
        torch.manual_seed(seed)
        self.made, self.channels = draws.randint(1, 70), 16 * draws.randint(1, 5)
        self.size = draws.randint(1, 5), draws.randint(1, 5)
        strides, pads, dilations = (
            (draws.randint(*span), draws.randint(*span)) for span in ((1, 3), (0, 4), (1, 3))
        )
        self.steps = strides, pads, dilations
        extent = [(n - 1) * by + 1 for n, by in zip(self.size, dilations, strict=True)]
        least = [max(1, n - 2 * pad) for n, pad in zip(extent, pads, strict=True)]
        images, high, wide = draws.randint(1, 4), *(n + draws.randint(0, 17) for n in least)
        self.x = last(torch.randn(images, self.channels, high, wide))
        self.filters = torch.randn(self.made, self.channels, *self.size)
        out = torch.conv2d(self.x, self.filters, None, *self.steps)
        self.grad = last(torch.randn_like(out))

    def wanted(self) -> tuple[Tensor, Tensor]:
        """The gradient, and that of all numbers' absolute values."""
        given = self.grad.double(), self.x.double(), self.filters.double()
        sums = (given[0].abs(), given[1].abs(), given[2])
        return filters.by_torch(*given, *self.steps), filters.by_torch(*sums, *self.steps)

    def judge(self) -> None:
        wanted, scale = self.wanted()
        seen = torch.zeros_like(self.x, requires_grad=True)
        torch.conv2d(seen, torch.ones_like(self.filters), None, *self.steps).sum().backward()
        assert seen.grad is not None
        x = torch.where(seen.grad == 0, torch.nan, self.x)
        found = filters.by_panels(self.grad, last(x), self.filters, *self.steps)
        assert found.shape == wanted.shape
        assert found.is_contiguous(memory_format=torch.channels_last)
        assert bool(((found - wanted).abs() <= 1e-6 * scale).all())


def last(images: Tensor) -> Tensor:
    return images.contiguous(memory_format=torch.channels_last)


@pytest.mark.usefixtures("by_threads")
@pytest.mark.parametrize("group", range(4))
def test_of_any_sizes(group: int) -> None:
    for seed in range(40 * group, 40 * (group + 1)):
        Drawn(seed).judge()


def test_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of the filters, and of the windows: each may begin amid a line of an image."""
    monkeypatch.setattr(product, "_LEFT", 500)
    monkeypatch.setattr(product, "_DEPTH", 13)
    for seed in range(100):
        Drawn(seed).judge()


def test_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of windows, each with a result of its own, whatever threads there are."""
    entered = always_by_panels(monkeypatch)
    for name, number in (("_HELD", 1 << 30), ("_GROUPS", 3), ("_LEAST", 5)):
        monkeypatch.setattr(filters, name, number)
    own = torch.get_num_threads()
    for seed in range(100):
        monkeypatch.setattr(filters, "_AT_ONCE", (7, 45, 100)[seed % 3])
        drawn = Drawn(seed)
        drawn.judge()
        found = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            found.append(filters.by_panels(drawn.grad, drawn.x, drawn.filters, *drawn.steps))
        torch.set_num_threads(own)
        assert torch.equal(found[0], found[1])
        assert torch.equal(found[0], found[2])
    assert entered["multiply_groups"] > 4 * 30
    assert entered["multiply_windows"] > 4 * 10


@pytest.mark.slow
def test_tiles_of_the_other_width(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tiles.tile_sizes()
    other = tiles.TileSizes(1, 6, (5, 4)) if own.vectors == 2 else tiles.TileSizes(2, 12, (10, 8))
    for module in (tiles, product, filters):
        monkeypatch.setattr(module, "tile_sizes", lambda: other)
    # Compiled anew for them, and kept nowhere; those that others call first.
    for module, names in (
        (loops, ("lay_panel", "lay_panels")),
        (windows, ("lay_channels", "lay_windows", "lay_panel", "multiply_panels", "coming")),
        (windows, ("multiply_windows", "multiply_groups")),
    ):
        for name in names:
            fresh = CompiledLoop(getattr(module, name).function)
            monkeypatch.setattr(module, name, fresh._dispatcher())
    for seed in range(100):
        Drawn(seed).judge()
    monkeypatch.setattr(filters, "_AT_ONCE", 7)
    for seed in range(100):
        Drawn(seed).judge()


# -- which are ------------------------------------------------------------------------


class Seconds:
    """Times for what is tried, instead of measured ones."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, torchs: float, ours: float) -> None:
        self.ways: Counter[str] = Counter()
        self.took = {"by_torch": torchs, "by_panels": ours}
        self.noise: Iterator[float] = itertools.repeat(1.0)
        monkeypatch.setattr(faster, "_timed", self._timed)

    def trying(self) -> faster.FasterWay:
        """What chooses by them."""
        given: Any = (partial(self._run, name) for name in ("by_panels", "by_torch"))
        return faster.FasterWay(*given)

    def _run(self, name: str, *_given: Any) -> str:
        self.ways[name] += 1
        return name

    def _timed(self, way: Any, given: Any) -> float:
        return self.took[way(*given)] * next(self.noise)


@pytest.mark.parametrize(("torchs", "ours", "taken"), [(1.1, 1.0, 1), (1.0, 1.0, 0), (1.0, 2.0, 0)])
def test_the_faster_way_is_taken_for_good(
    torchs: float, ours: float, taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = Seconds(monkeypatch, torchs, ours)
    trying = seconds.trying()
    x, small = torch.ones(1, 16, 5, 5), torch.ones(1, 16, 4, 4)
    found = [trying(one, one, x, (1, 1)) for one in (x, x, small, x, x, x, small)]
    assert found[:4] == ["by_torch"] * 4
    assert found[4:6] == [("by_torch", "by_panels")[taken]] * 2
    assert found[6] == "by_torch"  # one of other sizes is tried by itself
    assert seconds.ways["by_panels"] == 2 + 2 * taken
    own = torch.get_num_threads()
    torch.set_num_threads(own + 1)
    try:
        assert trying(x, x, x, (1, 1)) == "by_torch"
    finally:
        torch.set_num_threads(own)


@pytest.mark.parametrize("ours", [1.0, 1.4])
@pytest.mark.parametrize("disturbed", [0, 1, 2, 3, (0, 2), (1, 3), (0, 5), (3, 4)])
def test_turns_in_which_others_have_the_processor_decide_nothing(
    disturbed: Any, ours: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = Seconds(monkeypatch, 1.2, ours)
    hit = disturbed if isinstance(disturbed, tuple) else (disturbed,)
    seconds.noise = (3.0 if number in hit else 1.0 for number in itertools.count())
    trying, x = seconds.trying(), torch.ones(1, 16, 5, 5)
    found = [trying(x, x, x, (1, 1)) for _ in range(4)]
    misled = hit == ((1, 3) if ours == 1.0 else (0, 2))  # in both of the first turns alike
    assert found[3] == ("by_panels" if (ours == 1.0) is not misled else "by_torch")


def test_so_many_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = Seconds(monkeypatch, 2.0, 1.0)
    trying = seconds.trying()
    monkeypatch.setattr(faster, "_MOST", 2)
    for side in (3, 4, 5):
        x = torch.ones(1, 16, side, side)
        found = [trying(x, x, x, (1, 1)) for _ in range(5)]
        assert found[-1] == ("by_torch" if side == 5 else "by_panels")
    assert len(trying._known) == 2
    assert seconds.ways["by_panels"] == 8


CHANGES = ["flag", "double", "groups", "channels", "first", "small", "watched", "registers"]


@pytest.mark.parametrize("change", ["", *CHANGES])
def test_other_gradients_are_torchs(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    groups = 2 if change == "groups" else 1
    x, weight = last(torch.randn(2, 32, 6, 5)), torch.randn(8, 32 // groups, 3, 3)
    grad, bias = last(torch.randn(2, 8, 4, 3)), torch.randn(8)
    if change == "flag":
        monkeypatch.setattr(limits, "panels", False)
    elif change == "double":
        x, weight, grad = x.double(), weight.double(), grad.double()
    elif change == "channels":
        x, weight = last(x[:, :17]), weight[:, :17]
    elif change == "first":
        x = x.contiguous()
    elif change == "small":
        monkeypatch.setattr("refluid.ops.nn.convolution.LARGE_FILTERS", 2 * 8 * 12 * 32 * 9 + 1)
    elif change == "watched":
        grad.requires_grad_()
    elif change == "registers":
        monkeypatch.setattr(filters, "vector_bits", lambda: 0)
    found = conv2d_grad(x, weight, bias, grad, groups=groups, need=(True, True, True))
    steps = (1, 1), (0, 0), (1, 1)
    backward: Any = torch.ops.aten.convolution_backward
    wanted = backward(grad, x, weight, [8], *steps, False, (0, 0), groups, 3 * [True])
    for one, other in zip(reversed(found), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-4)
    assert entered["multiply_windows"] == (0 if change else 1)


@pytest.mark.parametrize("need", list(itertools.product([False, True], repeat=3)))
def test_what_is_wanted_is_computed(
    need: tuple[bool, bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = always_by_panels(monkeypatch)
    x, grad = last(torch.randn(2, 16, 6, 5)), last(torch.randn(2, 8, 4, 3))
    found = conv2d_grad(x, torch.randn(8, 16, 3, 3), torch.randn(8), grad, need=need)
    assert all(one is not None for one, wanted in zip(found, need, strict=True) if wanted)
    assert entered["multiply_windows"] == need[1]


def _trained(seed: int, tier: str, *, by_panels: bool) -> list[Any]:
    """Losses of steps of a network of convolutions, and its parameters then."""
    draws, values = random.Random(seed), np.random.default_rng(seed)
    main, startup, layers = fluid.Program(), fluid.Program(), fluid.layers
    main.random_seed = startup.random_seed = seed + 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x: Any = fluid.data("x", [None, 3, 13, 11])
        for _ in range(draws.randint(2, 4)):
            padding: Any = draws.choice([1, [0, 1, 2, 0], "SAME", "VALID"])
            sizes = 16 * draws.randint(1, 3), draws.randint(1, 3), draws.randint(1, 2)
            x = layers.conv2d(x, *sizes, padding=padding, act="relu")
        loss = layers.mean(layers.square(x))
        fluid.optimizer.Momentum(0.05, 0.9).minimize(loss)
    scope, exe = fluid.Scope(), fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope), flags.override({FLAG: by_panels, "FLAGS_refluid_tier": tier}):
        exe.run(startup)
        found = []
        for rows in (2, 5, 2, 2, 3, 3):
            x = values.normal(size=(rows, 3, 13, 11)).astype("float32")
            found += exe.run(main, {"x": x}, [loss])
        held = (scope.find_var(one.name).get_tensor() for one in main.all_parameters())
        return [*found, *map(np.array, held)]


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "tier", ["interpreted", "recorded", pytest.param("compiled", marks=pytest.mark.slow)]
)
def test_networks_train_as_before(tier: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entered = always_by_panels(monkeypatch)
    for seed in range(2 if tier == "compiled" else 6):
        wanted = _trained(seed, tier, by_panels=False)
        assert not entered
        found = _trained(seed, tier, by_panels=True)
        assert entered["multiply_windows"] >= 6
        entered.clear()
        for one, other in zip(found, wanted, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("flag", ["cpu_deterministic", "cudnn_deterministic"])
def test_not_where_repeatable_numbers_are_asked_for(
    flag: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered = always_by_panels(monkeypatch)
    with flags.override({f"FLAGS_{flag}": True}):
        _trained(0, "recorded", by_panels=True)
    assert not entered["multiply_windows"]
    _trained(0, "recorded", by_panels=True)
    assert entered["multiply_windows"]
