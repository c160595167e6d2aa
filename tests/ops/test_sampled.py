"""Sampled losses: their gradients, their distributions, and the engines behind them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows
from refluid.fluid.functions.loss.sampled import alias_table
from refluid.ops.loss.class_sampling import Alias, LogUniform, Sampler, UniformClasses, draw_unique
from refluid.ops.loss.hierarchical import hierarchical_sigmoid, hierarchical_sigmoid_grad
from refluid.ops.loss.nce import nce, nce_grad
from refluid.ops.loss.sampling import sample_logits, sample_logits_grad, sampling_id
from refluid.ops.tensor.mersenne import Twister32, Twister64

CLASSES, WIDTH, ROWS = 7, 4, 5


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed or 1)


def _values(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


def _close(found: Any, wanted: Any) -> None:
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


def test_engines_are_those_of_cpp() -> None:
    """The 10000th word of the default seed is given by the C++ standard."""
    assert Twister32(5489).words(10000)[-1] == 4123659995
    assert Twister64(5489).words(10000)[-1] == 9981545732273789042
    engine, whole = Twister64(7), Twister64(7).words(1000)
    parts = [engine.words(count) for count in (1, 311, 5, 683)]
    assert np.array_equal(np.concatenate(parts), whole)


def _samplers() -> list[Sampler]:
    chances = np.arange(1.0, CLASSES + 1)
    chances /= chances.sum()
    alias, stay = alias_table(chances.tolist())
    custom = Alias(torch.tensor(chances), torch.tensor(alias), torch.tensor(stay))
    return [UniformClasses(CLASSES), LogUniform(CLASSES), custom]


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_samplers_draw_by_their_probabilities(kind: int) -> None:
    source = _samplers()[kind]
    drawn = source.draw(source.engine(3), 200_000)
    shares = np.bincount(drawn, minlength=CLASSES) / drawn.size
    wanted = source.probability(torch.arange(CLASSES), torch.float64).numpy()
    assert wanted.sum() == pytest.approx(1.0)
    assert np.abs(shares - wanted).max() < 0.005


def test_unique_draws_are_the_first_different_ones() -> None:
    source = LogUniform(CLASSES)
    classes, tries = draw_unique(source, source.engine(5), 4)
    stream = source.draw(source.engine(5), tries).tolist()
    assert list(dict.fromkeys(stream)) == classes.tolist()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("kind", [0, 1, 2])
def test_nce(kind: int, sparse: bool) -> None:
    x, weight, bias = _values(ROWS, WIDTH), _values(CLASSES, WIDTH), _values(CLASSES, 1)
    label = torch.randint(0, CLASSES, (ROWS, 2))
    share = torch.rand(ROWS, 1, dtype=torch.float64)
    chances = [(place + 1) / 28 for place in range(CLASSES)]
    custom = [torch.tensor(one) for one in (chances, *alias_table(chances))] if kind == 2 else []
    custom += [None] * (3 - len(custom))
    given = (x, label, weight, bias)
    attrs = {"num_total_classes": CLASSES, "num_neg_samples": 3, "sampler_": kind}
    cost, chance, classes = nce(*given, share, *custom, **attrs, seed=9, random=_generator)
    assert torch.equal(classes[:, :2], label)
    assert torch.equal(classes, nce(*given, share, *custom, **attrs, seed=9, random=_generator)[2])
    grad = torch.randn_like(cost)
    wanted = torch.autograd.grad(cost, [x, weight, bias], grad)
    with torch.no_grad():
        kept = chance.detach(), classes
        found = list(nce_grad(*given, *kept, share, *custom, grad, **attrs, is_sparse=sparse))
    if sparse:
        assert isinstance(found[1], SelectedRows)
        rows = found[1]
        found[1] = torch.zeros_like(weight).index_add_(0, rows.index, rows.value)
    _close(found, wanted)


def test_nce_takes_given_negatives_and_names_a_missing_table() -> None:
    given = torch.zeros(2, 3), torch.zeros(2, 1).long(), torch.zeros(5, 3)
    attrs = {"num_total_classes": 5, "num_neg_samples": 2, "random": _generator}
    classes = nce(*given, **attrs, custom_neg_classes=[4, 1])[2]
    assert classes.tolist() == [[0, 4, 1]] * 2
    with pytest.raises(EnforceNotMet, match="CustomDistAlias"):
        nce(*given, **attrs, sampler_=2)


@pytest.mark.parametrize("custom", [False, True])
def test_hierarchical_sigmoid(custom: bool) -> None:
    """In the default tree the probabilities of all classes add up to 1."""
    nodes = CLASSES - 1
    x, weight, bias = _values(ROWS, WIDTH), _values(nodes, WIDTH), _values(nodes, 1)
    label = torch.randint(0, CLASSES, (ROWS, 1))
    table = code = None
    if custom:
        table = torch.tensor([[0, 2, -1], [0, 1, 4], [0, 2, 5], [0, -1, -1], [3, 1, 0]])
        code = torch.tensor([[1, 0, -1], [0, 1, 1], [0, 0, 1], [1, -1, -1], [0, 1, 1]])
    given = (x, weight, label, table, code, bias)
    out, soft, _ = hierarchical_sigmoid(*given, num_classes=CLASSES)
    grad = torch.randn_like(out)
    wanted = torch.autograd.grad(out, [x, weight, bias], grad)
    with torch.no_grad():
        found = hierarchical_sigmoid_grad(*given, soft.detach(), grad, num_classes=CLASSES)
        _close(found, wanted)
        rows = hierarchical_sigmoid_grad(
            *given, soft.detach(), grad, num_classes=CLASSES, is_sparse=True
        )[1]
    assert isinstance(rows, SelectedRows)
    dense = torch.zeros_like(weight).index_add_(0, rows.index, rows.value)
    torch.testing.assert_close(dense, wanted[1])
    if not custom:
        every = torch.arange(CLASSES).view(-1, 1)
        same = x[:1].detach().expand(CLASSES, -1)
        loss, per_node, _ = hierarchical_sigmoid(
            same, weight, every, None, None, bias, num_classes=7
        )
        lengths = torch.tensor([len(bin(one + CLASSES)) - 3 for one in range(CLASSES)])
        lacking = (per_node.shape[1] - lengths).view(-1, 1) * np.log(2.0)
        assert torch.exp(lacking - loss).sum().item() == pytest.approx(1.0)


def test_sample_logits() -> None:
    logits = _values(3, 50)
    labels = torch.tensor([[0, 4], [1, 2], [7, 0]])
    attrs = {"num_samples": 6, "seed": 3, "random": _generator}
    samples, chance, *dims, out, hard = sample_logits(logits, labels, **attrs)
    assert torch.equal(samples[:, :2], labels)
    assert len(set(samples[0, 2:].tolist())) == 6
    assert hard.tolist() == [[0, 1]] * 3
    hits = (samples[:, 2:, None] == labels[:, None, :]).any(2)
    plain = logits.gather(1, samples) - torch.log(chance)
    assert torch.equal(out[:, 2:][~hits], plain[:, 2:][~hits])
    assert (out[:, 2:][hits] < -1e19).all()
    grad = torch.randn_like(out)
    (wanted,) = torch.autograd.grad(out, [logits], grad)
    torch.testing.assert_close(sample_logits_grad(samples, *dims, grad), wanted)
    with pytest.raises(EnforceNotMet, match="cannot be drawn"):
        sample_logits(logits, labels, num_samples=51, random=_generator)


def test_sample_logits_takes_given_samples() -> None:
    logits, labels = torch.randn(2, 9), torch.tensor([[1], [3]])
    samples, chance = torch.tensor([[1, 5], [3, 0]]), torch.full((2, 2), 0.5)
    found = sample_logits(
        logits,
        labels,
        samples,
        chance,
        use_customized_samples=True,
        num_samples=1,
        random=_generator,
    )
    torch.testing.assert_close(found[4], logits.gather(1, samples) - np.log(0.5))


def test_ids_are_drawn_by_their_probabilities() -> None:
    chances = torch.tensor([[0.1, 0.2, 0.7]]).repeat(50_000, 1)
    shares = sampling_id(chances, seed=4, random=_generator).bincount() / 50_000
    torch.testing.assert_close(shares, chances[0], atol=0.01, rtol=0)
    assert sampling_id(chances[:4], min=0.95, random=_generator).tolist() == [2] * 4
