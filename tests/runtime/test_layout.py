"""Which filters plans hold channels-last, and that their strides say so."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags
from refluid.core.scope import Cell
from refluid.fluid.contrib.mixed_precision import decorate
from refluid.runtime import layout
from refluid.runtime.layout import Hold, channels_last_state, hold_channels_last, hold_plain

CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def _network(*channels: int) -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 1
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.data("x", [None, 1, 28, 28])
        for count in channels:
            hidden = fluid.layers.conv2d(hidden, count, 5, act="relu")
            hidden = fluid.layers.pool2d(hidden, 2, "max", 2)
        loss = fluid.layers.mean(hidden)
        fluid.optimizer.Adam(0.001).minimize(loss)
    return main, startup, loss


@pytest.mark.parametrize(
    ("channels", "device", "held"),
    [((20, 50), CPU, True), ((6, 16), CPU, False), ((20, 50), CUDA, False)],
)
def test_wide_networks(channels: tuple[int, ...], device: torch.device, held: bool) -> None:
    main, _, _ = _network(*channels)
    names = channels_last_state(main.global_block().ops, device)
    assert bool(names) is held
    if held:
        assert {"conv2d_0.w_0", "conv2d_1.w_0", "conv2d_1.w_0_moment1_0"} <= names


@pytest.mark.parametrize(("count", "pooled", "held"), [(1, False, 0), (1, True, 1), (2, False, 2)])
def test_one_convolution_alone_is_worth_turning_images_round_for_a_pool_only(
    count: int, pooled: bool, held: int
) -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()):
        hidden = fluid.data("x", [None, 16, 28, 28])
        for _ in range(count):
            hidden = fluid.layers.conv2d(hidden, 16, 3, bias_attr=False)
        if pooled:
            fluid.layers.pool2d(hidden, 2, "avg", 2)
    assert len(channels_last_state(main.global_block().ops, CPU)) == held


@pytest.mark.parametrize("shape", [(20, 1, 5, 5), (8, 4, 3, 3), (8, 4, 1, 1)])
def test_strides_are_unambiguous(shape: tuple[int, ...]) -> None:
    cell = Cell("w")
    cell.value = torch.arange(float(np.prod(shape))).reshape(shape)
    before = cell.value.clone()
    hold_channels_last([cell])
    _, channels, _, width = shape
    assert cell.value.stride()[1:] == (1, width * channels, channels)
    assert torch.equal(cell.value, before)
    kept = cell.value
    hold_channels_last([cell])
    assert cell.value is kept


def test_training_is_the_same_as_without(monkeypatch: pytest.MonkeyPatch) -> None:
    images = np.random.default_rng(0).random((4, 1, 28, 28), np.float32)
    losses = []
    for wide in (8, 1000):
        monkeypatch.setitem(layout.WIDE, "cpu", wide)
        main, startup, loss = _network(20, 50)
        scope, executor = fluid.Scope(), fluid.Executor()
        executor.run(startup, scope=scope)
        losses.append(
            [
                executor.run(main, feed={"x": images}, fetch_list=[loss], scope=scope)[0].item()
                for _ in range(6)
            ]
        )
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


@pytest.mark.parametrize(
    ("channels", "layout", "last"),
    [((20, 50), "never", False), ((6, 16), "always", True)],
)  # fmt: skip
def test_flags_say_how_filters_lie(channels: tuple[int, ...], layout: str, last: bool) -> None:
    images = np.random.default_rng(0).random((2, 1, 28, 28), np.float32)
    main, startup, loss = _network(*channels)
    scope, executor = fluid.Scope(), fluid.Executor()
    executor.run(startup, scope=scope)
    usual, seen = [], []
    for number in range(9):  # to and fro, so that values are laid out anew
        here = layout if number // 3 % 2 == 0 else "auto"
        with flags.override({"FLAGS_refluid_channels_last": here}):
            usual += executor.run(main, {"x": images}, [loss], scope=scope)
        if here == layout:
            names = ("conv2d_1.w_0", "conv2d_1.w_0_moment1_0")
            strides = {scope.find_var(name).value.stride()[1] for name in names}
            seen.append(strides == {1})
    assert seen == [last] * len(seen)
    alone, once = fluid.Scope(), fluid.Executor()
    once.run(startup, scope=alone)
    plain = [once.run(main, {"x": images}, [loss], scope=alone)[0] for _ in range(9)]
    np.testing.assert_allclose(np.array(usual), np.array(plain), rtol=1e-3)


def test_values_that_lie_plainly_already_stay() -> None:
    cell = Cell("w")
    cell.value = torch.rand(8, 4, 1, 1)
    kept = cell.value
    hold_plain([cell])
    assert cell.value is kept
    hold_channels_last([cell])
    hold_plain([cell])
    assert cell.value.stride() == (4, 1, 1, 1) and torch.equal(cell.value, kept)


@pytest.mark.parametrize(
    ("hold", "former"),
    [(hold_channels_last, torch.contiguous_format), (hold_plain, torch.channels_last)],
)
def test_replicas_that_share_a_filter_get_the_same_memory(
    hold: Hold, former: torch.memory_format
) -> None:
    with ThreadPoolExecutor(4) as replicas:
        for _ in range(50):
            cell, together = Cell("shared"), Barrier(4)
            cell.value = torch.rand(64, 64, 5, 5).contiguous(memory_format=former)

            def place_of(cell: Cell = cell, together: Barrier = together) -> int:
                together.wait()
                hold([cell])
                found: int = cell.value.data_ptr()
                together.wait()  # before the memory of another value can be free
                return found

            found = [replicas.submit(place_of) for _ in range(4)]
            assert {one.result() for one in found} == {cell.value.data_ptr()}


def test_depthwise_filters_are_as_wide_as_their_groups() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        images = fluid.data("images", [None, 3, 16, 16])
        first = fluid.layers.conv2d(images, 16, 3)
        spread = fluid.layers.conv2d(first, 16, 3, groups=16)
        fluid.layers.conv2d(spread, 32, 1)
    found = channels_last_state(main.global_block().ops, CPU)
    assert {"conv2d_0.w_0", "conv2d_1.w_0", "conv2d_2.w_0"} <= found


def test_filters_of_mixed_precision_are_held_channels_last() -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        images = fluid.data("images", [None, 16, 16, 16])
        hidden = fluid.layers.pool2d(fluid.layers.conv2d(images, 16, 3), 2, "max", 2)
        loss = fluid.layers.mean(hidden)
        decorate(fluid.optimizer.Momentum(0.1, 0.9)).minimize(loss)
    found = channels_last_state(main.global_block().ops, CPU)
    assert found == {"conv2d_0.w_0", "conv2d_0.w_0_velocity_0"}
