"""Dropout in one pass: what is drawn, for any sizes, shares and numbers of threads."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import flags, random
from refluid.kernels import dropouts, epilogues
from refluid.kernels.dropout_loops import drawn
from refluid.ops.registry import find
from refluid.runtime.recorded.trial import compiling_at_once

FLAG = "FLAGS_refluid_dropout_loop"
layers = fluid.layers
# Random123's known answers: place, key, words.
KNOWN = (
    ("00000000 00000000", "00000000 00000000", "9d1c5ec6 8bd50731"),
    ("ffffffff ffffffff", "ffffffff ffffffff", "fd36d048 2d17272c"),
    ("243f6a88 85a308d3", "13198a2e 03707344", "ba3e4725 f27d669e"),
)


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """As many afterwards as before."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def _words(text: str) -> list[int]:
    return [int(word, 16) for word in text.split()]


@pytest.mark.parametrize(("place", "key", "words"), KNOWN)
def test_what_is_drawn_is_threefry(place: str, key: str, words: str) -> None:
    low, high = _words(place)
    key0, key1 = map(np.uint32, _words(key))
    found = drawn.by_numba(key0, key1, np.uint64(low | high << 32))
    assert [int(one) for one in found] == _words(words)


def _expected(count: int, key: int, share: float) -> Any:
    """The mask, drawn place by place."""
    part = dropouts._PART
    bits = np.empty(count, np.uint32)
    key0, key1 = np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 32)
    for begin in range(0, count, part):
        end = min(begin + part, count)
        half = (end - begin + 1) // 2
        for i in range(half):
            one, other = drawn.by_numba(key0, key1, np.uint64(begin + i))
            bits[begin + i] = one
            if begin + half + i < end:
                bits[begin + half + i] = other
    return torch.from_numpy((bits >= np.uint32(int(share * 2**32))).astype(np.uint8))


@pytest.mark.parametrize("seed", range(6))
def test_any_sizes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same for any number of threads, and in parts of any even or odd length."""
    draws = np.random.default_rng(seed)
    monkeypatch.setattr(dropouts, "_PART", int(draws.choice([1, 2, 5, 64])))
    for _ in range(8):
        shape = [int(n) for n in draws.integers(1, 12, size=draws.integers(1, 4))]
        share, divisor = float(draws.choice([1e-9, 0.1, 0.5, 0.999])), float(draws.choice([1, 0.3]))
        key = int(draws.integers(2**63))
        x = torch.from_numpy(draws.standard_normal(shape, "float32"))
        mask = _expected(x.numel(), key, share).view(x.shape)
        for size in (1, 2, 5):
            torch.set_num_threads(size)
            out, found = dropouts.dropped(x, torch.tensor([key]), share, divisor)
            assert torch.equal(found, mask)
            torch.testing.assert_close(out, x / divisor * mask)
            assert torch.equal(dropouts.kept(x, found, divisor), out)


def test_what_is_dropped_becomes_zero_whatever_it_was() -> None:
    x = torch.full([4096], torch.nan)
    out, mask = dropouts.dropped(x, torch.tensor([5]), 0.5, 1.0)
    assert torch.equal(out.isnan(), mask.bool()) and not out[mask == 0].any()


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_shares_and_runs(share: float) -> None:
    """As many as should be, in no order: neighbours, halves and steps have nothing in common."""
    count = 2**20
    masks = [
        dropouts.dropped(torch.ones(count), torch.tensor([key]), share, 1.0)[1].double()
        for key in (1, 2, 2**62)
    ]
    spread = (share * (1 - share) / count) ** 0.5
    for mask in masks:
        assert abs(float(mask.mean()) - (1 - share)) < 5 * spread
        for lag in (1, 2, dropouts._PART // 2, dropouts._PART):
            together = (mask[lag:] * mask[:-lag]).mean()
            assert abs(float(together) - (1 - share) ** 2) < 10 * spread
    assert abs(float((masks[0] * masks[1]).mean()) - (1 - share) ** 2) < 10 * spread


def _run(prob: float, way: str, *, loop: bool, seed: int = 0) -> list[Any]:
    """Out, Mask, and the gradient where that of Out is X."""
    definition, gradient = find("dropout"), find("dropout_grad")
    assert definition is not None and gradient is not None
    x = torch.from_numpy(np.random.default_rng(1).standard_normal([300, 200], "float32"))
    asked = {"dropout_prob": prob, "dropout_implementation": way}
    source = random.RandomSource(torch.device("cpu"))
    with flags.override({FLAG: loop}):
        out, mask = definition.body(x, None, seed=seed, fix_seed=True, random=source, **asked)
        return [x, out, mask, gradient.body(mask, x, **asked)]


@pytest.mark.parametrize("way", ["upscale_in_train", "downgrade_in_infer"])
@pytest.mark.parametrize("prob", [0.0, 0.2, 0.5, 1.0])
def test_the_operator(prob: float, way: str) -> None:
    for loop in (True, False):
        x, out, mask, grad = _run(prob, way, loop=loop, seed=7)
        scale = 1 / (1 - prob) if way == "upscale_in_train" and prob < 1 else 1.0
        torch.testing.assert_close(out, x * mask * scale)
        torch.testing.assert_close(grad, x * mask * scale)
        assert mask.dtype == torch.uint8
        assert abs(float(mask.float().mean()) - (1 - prob)) < 0.02
        assert all(map(torch.equal, _run(prob, way, loop=loop, seed=7), [x, out, mask, grad]))


def test_the_loop_is_taken_for_many_and_not_without_the_flag() -> None:
    many, few = torch.ones(epilogues._DROPPED), torch.ones(epilogues._DROPPED - 1)
    assert epilogues.dropout_loops(many) is dropouts
    assert epilogues.dropout_loops(few) is None
    assert epilogues.dropout_loops(many.double()) is None
    assert epilogues.dropout_loops(many.view(2, -1).t()) is None
    with flags.override({FLAG: False}):
        assert epilogues.dropout_loops(many) is None


def test_its_derivatives_where_operators_run_at_once() -> None:
    x = torch.randn(300, 200, requires_grad=True)
    out, mask = dropouts.dropped(x * x, torch.tensor([3]), 0.4, 0.6)
    assert not mask.requires_grad
    (first,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    torch.testing.assert_close(first, 4 * x**3 * mask / 0.36)
    (second,) = torch.autograd.grad(first.sum(), x)
    torch.testing.assert_close(second, 12 * x**2 * mask / 0.36)
    (turned,) = torch.autograd.grad(
        (dropouts.dropped(x, torch.tensor([3]), 0.4, 0.6)[0].t() * 2).sum(), x
    )
    torch.testing.assert_close(turned, 2 * mask / 0.6)


def test_dygraph_takes_it() -> None:
    with fluid.dygraph.guard():
        x = fluid.dygraph.to_variable(np.ones([300, 200], "float32"))
        x.stop_gradient = False
        for _ in range(3):
            out = layers.dropout(x, 0.25, dropout_implementation="upscale_in_train")
            layers.reduce_sum(out * out).backward()
            value, slope = out.numpy(), x.gradient()
            x.clear_gradient()
            np.testing.assert_allclose(slope, 2 * value / np.float32(0.75), 1e-6)
            assert set(np.unique(value)) == {np.float32(0), np.float32(1) / np.float32(0.75)}


@pytest.mark.parametrize("tier", ["interpreted", "recorded"])
def test_steps_draw_anew_and_the_same_after_the_same_seed(tier: str) -> None:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup):
        out = layers.dropout(fluid.data("x", [None, 1000]), 0.3)
    found: list[list[Any]] = []
    for _ in range(2):
        random.seed_all(9)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        with flags.override({"FLAGS_refluid_tier": tier}):
            feed = {"x": np.ones([50, 1000], "float32")}
            found.append([exe.run(main, feed, [out], scope=scope)[0] for _ in range(6)])
    for one, again in zip(*found, strict=True):
        np.testing.assert_array_equal(one, again)
    assert len({one.tobytes() for one in found[0]}) == 6


def _losses(tier: str) -> list[float]:
    """Of a small network, whose dropout is drawn after the same seed."""
    main, startup = fluid.Program(), fluid.Program()
    startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        hidden = fluid.data("x", [None, 256])
        for _ in range(2):
            made = layers.dropout(layers.fc(hidden, 256, act="tanh"), 0.3)
            hidden = layers.elementwise_add(made, layers.scale(hidden, 0.5))
        loss = layers.mean(layers.square(hidden))
        fluid.optimizer.SGD(0.1).minimize(loss)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    feed = {"x": np.random.RandomState(0).randn(200, 256).astype("float32")}
    with flags.override({"FLAGS_refluid_tier": tier}):
        exe.run(startup, scope=scope)
        random.seed_all(5)
        return [exe.run(main, feed, [loss], scope=scope)[0].item() for _ in range(6)]


def test_recorded_steps_draw_what_plans_do() -> None:
    np.testing.assert_allclose(_losses("recorded"), _losses("interpreted"), 1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_compiled_steps_draw_what_plans_do(caplog: pytest.LogCaptureFixture) -> None:
    """And the check of a compiled function's first call finds nothing."""
    with compiling_at_once():
        found = _losses("compiled")
    np.testing.assert_allclose(found, _losses("interpreted"), 1e-5)
    assert not [one for one in caplog.records if one.levelname == "WARNING"]
