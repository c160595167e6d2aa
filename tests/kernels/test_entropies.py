"""Cross entropies in one pass are those of torch's kernels, for any sizes, labels and numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet
from refluid.kernels import epilogues
from refluid.ops.loss import crossentropy as ops

FLAG = "FLAGS_refluid_softmax_loop"
Draws = np.random.Generator


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Small ones by the loops, too; as many threads afterwards as before."""
    monkeypatch.setattr(epilogues, "_LABELS", 1)
    monkeypatch.setattr(epilogues, "_LOGITS", 1)
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def both(made: Callable[..., Tensor], *given: Tensor, **how: Any) -> tuple[Tensor, Tensor]:
    """By a loop, and by torch's kernels."""
    ours = made(*given, **how)
    with flags.override({FLAG: False}):
        return ours, made(*given, **how)


def same_bits(ours: Tensor, known: Tensor) -> None:
    """Signs of zeros aside, which gradients have where nothing flows."""
    np.testing.assert_array_equal(ours.numpy(), known.numpy())
    assert ours.shape == known.shape and ours.is_contiguous()


def numbers(draws: Draws, shape: tuple[int, ...], odd: bool) -> Tensor:
    """Numbers of any size; among them some that are none, or zeros."""
    made = draws.normal(0, draws.choice([0.01, 1.0, 30.0, 1e4]), shape).astype("float32")
    if odd:
        picked = draws.random(shape) < 0.1
        made[picked] = draws.choice([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40], picked.sum())
    return torch.from_numpy(made)


def labelled(draws: Draws, odd: bool) -> tuple[Tensor, Tensor, int]:
    """Rows, labels of a rank that Fluid allows, and which of them is ignored."""
    outer = tuple(draws.integers(1, draws.choice([3, 9, 40]), size=draws.integers(1, 4)))
    classes = int(draws.integers(1, draws.choice([2, 20, 3000])))
    x = numbers(draws, (*outer, classes), odd)
    ignored = int(draws.choice([-100, -1, 0, classes - 1, classes, 2**40]))
    label = torch.from_numpy(draws.integers(0, classes, (*outer, draws.integers(1, 2))))
    label[torch.from_numpy(draws.random(label.shape) < 0.3)] = ignored
    if draws.random() < 0.5:
        label = label.squeeze(-1)
    if not 0 <= ignored < classes and draws.random() < 0.1:
        label = torch.full_like(label, ignored)
    return x if odd else x.abs(), label, ignored


@pytest.mark.parametrize("seed", range(10))
def test_entropies_of_any_labels(seed: int) -> None:
    draws = np.random.default_rng(seed)
    for _ in range(40):
        torch.set_num_threads(int(draws.integers(1, 5)))
        x, label, ignored = labelled(draws, draws.random() < 0.5)
        assert epilogues.label_loops(label, x)
        flowing = numbers(draws, tuple(label.shape), draws.random() < 0.3)
        how = {"ignore_index": ignored}
        same_bits(*both(ops.cross_entropy, x, label, **how))
        same_bits(*both(ops.cross_entropy_grad, x, label, flowing, **how))
        loss, shape, match = ops.cross_entropy2(x, label, **how)
        same_bits(loss, ops.cross_entropy(x, label, **how))
        same_bits(*both(ops.cross_entropy_grad2, label, match, shape, flowing, **how))
        with flags.override({FLAG: False}):
            same_bits(match, ops.cross_entropy2(x, label, **how)[2])


def test_an_ignored_loss_is_no_minus_zero() -> None:
    loss = ops.cross_entropy(torch.full((40, 3), 0.3), torch.full((40, 1), -100))
    assert not loss.any() and not loss.signbit().any()


@pytest.mark.parametrize("wrong", [-1, 5, 2**31, -(2**63), 2**63 - 1])
@pytest.mark.parametrize("place", [0, 17, 39])
def test_a_label_that_is_no_class_is_refused(wrong: int, place: int) -> None:
    x, label = torch.rand(40, 5), torch.zeros(40, 1, dtype=torch.int64)
    label[place] = wrong
    loops = epilogues.label_loops(label, x)
    with pytest.raises(RuntimeError, match="out of bounds"):
        loops.take(x, label, -100)
    with pytest.raises(RuntimeError, match="out of bounds"):
        loops.put(x[:, :1], label, 5, -100)
    loops.take(x, label, wrong)


def test_which_labels_are_left_to_torch() -> None:
    x, label = torch.rand(6, 6), torch.zeros(6, 1, dtype=torch.int64)
    assert epilogues.label_loops(label, x) and epilogues.label_loops(label[:, 0], x, label * 1.0)
    for others in ((x.double(),), (x.t(),), (x, label.double()), (x[:5],), (x.to("meta"),)):
        assert not epilogues.label_loops(label, *others)
    assert not epilogues.label_loops(label.int(), x)
    assert not epilogues.label_loops(label.expand(6, 6), x)
    assert not epilogues.label_loops(torch.zeros(12, dtype=torch.int64)[::2], x)
    assert not epilogues.label_loops(label, x, torch.ones(6, 1, requires_grad=True))
    with flags.override({FLAG: False}):
        assert not epilogues.label_loops(label, x)


def exact(x: Tensor, label: Tensor) -> tuple[Tensor, Tensor]:
    """The loss of each in float64, of numbers that are in float32; the size of its terms."""
    x, label = x.double(), label.double()
    high, product, low = x.clamp(min=0), x * label, torch.log1p(torch.exp(-x.abs()))
    return high - product + low, high + product.abs() + low


def logits(draws: Draws, odd: bool) -> tuple[Tensor, Tensor, int]:
    """Logits; labels, also such that are no whole numbers; and which whole part is ignored."""
    shape = tuple(draws.integers(1, draws.choice([3, 9, 60]), size=draws.integers(1, 4)))
    ignored = int(draws.choice([-100, -1, 0, 1, 2]))
    label = draws.choice([0.0, 1.0, 0.3, -0.4, ignored, ignored + 0.4, ignored - 0.4], shape)
    return numbers(draws, shape, odd), torch.from_numpy(label.astype("float32")), ignored


def near(ours: Tensor, known: Tensor, exact: Tensor, size: Tensor) -> None:
    """What torch finds no finite number is the same; what it finds one is the exact one."""
    assert ours.shape == known.shape
    finite = known.isfinite()
    np.testing.assert_array_equal(ours[~finite], known[~finite])
    gap = (ours - exact).abs()[finite]
    assert (gap <= 3e-7 * size[finite] + 1e-37).all()


@pytest.mark.parametrize("seed", range(10))
def test_entropies_of_any_logits(seed: int) -> None:
    draws = np.random.default_rng(seed)
    for _ in range(40):
        torch.set_num_threads(int(draws.integers(1, 5)))
        odd = bool(draws.random() < 0.5)
        x, label, ignored = logits(draws, odd)
        flowing, counts = numbers(draws, tuple(x.shape), odd), label.trunc() != ignored
        assert epilogues.sigmoid_loops(x, label)
        how = {"ignore_index": ignored, "normalize": bool(draws.random() < 0.3)}
        share = (
            counts / ((label - ignored).abs() > 1e-6).sum() if how["normalize"] else counts * 1.0
        )
        loss, size = exact(x, label)
        found = both(ops.sigmoid_cross_entropy_with_logits, x, label, **how)
        near(*found, loss * share, size * share)
        chance, flow = torch.sigmoid(x.double()), flowing.double() * share
        found = both(ops.sigmoid_cross_entropy_with_logits_grad, x, label, flowing, **how)
        near(*found, (chance - label) * flow, (chance + label.abs()) * flow.abs())


def test_digits_of_small_losses() -> None:
    """And all others: within two units of the last digit, gradients too."""
    x = torch.cat((torch.linspace(-104, 30, 40001), torch.logspace(-30, 2, 999)))
    zeros, ones = torch.zeros_like(x), torch.ones_like(x)
    ours = ops.sigmoid_cross_entropy_with_logits(x, zeros)
    np.testing.assert_allclose(ours.double(), exact(x, zeros)[0], rtol=2.4e-7, atol=2e-45)
    ours = ops.sigmoid_cross_entropy_with_logits_grad(x, zeros, ones)
    np.testing.assert_allclose(ours.double(), torch.sigmoid(x.double()), rtol=2.4e-7, atol=2e-45)


def test_which_logits_are_left_to_torch() -> None:
    x, y = torch.rand(6, 6), torch.rand(6, 6)
    assert epilogues.sigmoid_loops(x, y, x)
    for others in ((y.double(),), (y.t(),), (y[:5],), (y[:1].expand(6, 6),), (y.to("meta"),)):
        assert not epilogues.sigmoid_loops(x, *others)
    assert not epilogues.sigmoid_loops(x, y, torch.rand(6, 6, requires_grad=True))
    with flags.override({FLAG: False}):
        assert not epilogues.sigmoid_loops(x, y)


def losses(tier: str) -> list[float]:
    """Of some steps of training by both kinds of loss; the last batch has a label too many."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x, label = fluid.data("x", [-1, 6]), fluid.data("label", [-1, 1], "int64")
        hidden = fluid.layers.fc(x, 12, act="tanh")
        chances = fluid.layers.fc(hidden, 5, act="softmax")
        entropy = fluid.layers.cross_entropy(chances, label, ignore_index=2)
        logit = fluid.layers.fc(hidden, 6)
        other = fluid.layers.sigmoid_cross_entropy_with_logits(logit, fluid.layers.sigmoid(x))
        loss = fluid.layers.mean(entropy) + fluid.layers.mean(other)
        fluid.optimizer.SGD(0.3).minimize(loss)
    exe, draws = fluid.Executor(), np.random.RandomState(5)
    with fluid.scope_guard(fluid.Scope()), flags.override({"FLAGS_refluid_tier": tier}):
        exe.run(startup)
        feed = {"x": draws.rand(24, 6).astype("f4"), "label": draws.randint(0, 5, (24, 1))}
        found = [float(exe.run(main, feed, [loss])[0].item()) for _ in range(8)]
        feed["label"][7] = 5
        with pytest.raises(EnforceNotMet, match="cross_entropy"):
            exe.run(main, feed, [loss])
    return found


@pytest.mark.parametrize("tier", ["interpreted", "recorded", "compiled"])
def test_training_in_every_tier(tier: str) -> None:
    ours = losses(tier)
    with flags.override({FLAG: False}):
        np.testing.assert_allclose(ours, losses(tier), rtol=1e-5)
    assert ours[-1] < ours[0]
