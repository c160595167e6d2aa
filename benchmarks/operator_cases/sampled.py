"""Large vocabularies: tables with sparse gradients, sampled and hierarchical classes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

import refluid.fluid as fluid
from benchmarks.operator_cases.case import Array, Case, Random, normal, op

ROWS, WIDTH, WORDS = 100_000, 64, 4096
CLASSES, BATCH, DRAWN = 10_000, 256, 20


def _words(random: Random) -> Mapping[str, Array]:
    return {"Ids": random.randint(0, ROWS, (WORDS, 1))}


def _table(random: Random) -> Mapping[str, Array]:
    words = random.randint(0, ROWS // 5, (4 * WORDS, 1))
    return {"W": normal(random, ROWS // 5, 2 * WIDTH), "Ids": words}


def _trained(optimizer: Callable[[], Any]) -> Callable[[Mapping[str, Any]], Any]:
    """An embedding with sparse gradient, its loss and one update."""

    def build(given: Mapping[str, Any]) -> Any:
        embedded = fluid.layers.embedding(given["Ids"], (ROWS, WIDTH), is_sparse=True)
        loss = fluid.layers.reduce_sum(fluid.layers.square(embedded))
        optimizer().minimize(loss)
        return loss

    return build


class TorchTable:
    """The same with torch's sparse embedding and optimizer."""

    def __init__(self, optimizer: Callable[[list[Tensor]], torch.optim.Optimizer]) -> None:
        self.make, self.table = optimizer, torch.empty(0)

    def __call__(self, words: Tensor) -> float:
        if not self.table.numel():
            self.table = torch.randn(ROWS, WIDTH).requires_grad_()
            self.optimizer = self.make([self.table])
        self.optimizer.zero_grad()
        loss = F.embedding(words[:, 0], self.table, sparse=True).square().sum()
        torch.autograd.backward(loss)
        self.optimizer.step()
        return loss.item()


def _noisy(random: Random) -> Mapping[str, Array]:
    return {
        "Input": normal(random, BATCH, WIDTH),
        "Label": random.randint(0, CLASSES, (BATCH, 1)),
        "Weight": normal(random, CLASSES, WIDTH) * 0.1,
        "Bias": normal(random, CLASSES, 1) * 0.1,
    }


def _torch_nce(x: Tensor, label: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    drawn = torch.randint(CLASSES, (BATCH, DRAWN))
    classes = torch.cat((label, drawn), 1)
    scores = torch.bmm(F.embedding(classes, weight), x[:, :, None])[..., 0]
    chance = torch.sigmoid(scores + F.embedding(classes, bias)[..., 0])
    noise = DRAWN / CLASSES
    true, false = chance[:, :1], chance[:, 1:]
    return -(true / (true + noise)).log() - (noise / (false + noise)).log().sum(1, True)


def _tree(random: Random) -> Mapping[str, Array]:
    return {
        "X": normal(random, BATCH, WIDTH),
        "W": normal(random, CLASSES - 1, WIDTH) * 0.1,
        "Label": random.randint(0, CLASSES, (BATCH, 1)),
        "Bias": normal(random, CLASSES - 1, 1) * 0.1,
    }


def _torch_tree(x: Tensor, weight: Tensor, label: Tensor, bias: Tensor) -> Tensor:
    """Node and turn at each depth follow from the bits of label + classes."""
    code = label + CLASSES
    depth = torch.arange(int(code.max()).bit_length() - 1)
    node = (code >> (depth + 1)) - 1
    real = node >= 0
    node = node.clamp(min=0)
    scores = torch.bmm(F.embedding(node, weight), x[:, :, None])[..., 0]
    scores = scores + F.embedding(node, bias)[..., 0]
    scores = scores * real  # as in Fluid, places below a leaf add log 2
    turn = (code >> depth) & 1
    return (F.softplus(scores) - turn * scores).sum(1, True)


CASES = (
    Case(
        "lookup_table",
        _table,
        op("lookup_table"),
        lambda table, words: F.embedding(words[:, 0], table),
        ("W",),
        ("W",),
    ),
    Case(
        "lookup_table, sparse, with SGD",
        _words,
        _trained(lambda: fluid.optimizer.SGD(0.1)),
        TorchTable(lambda tables: torch.optim.SGD(tables, 0.1)),
        same=False,
        updates=True,
    ),
    Case(
        "lookup_table, sparse, with lazy Adam",
        _words,
        _trained(lambda: fluid.optimizer.Adam(0.1, lazy_mode=True)),
        TorchTable(lambda tables: torch.optim.SparseAdam(tables, 0.1)),
        same=False,
        updates=True,
    ),
    Case(
        "nce",
        _noisy,
        op("nce", "Cost", num_total_classes=CLASSES, num_neg_samples=DRAWN),
        _torch_nce,
        ("Input", "Weight", "Bias"),
        ("Weight", "Bias"),
        same=False,
        reason="classes are drawn as by Fluid's samplers, and kept for the gradient",
    ),
    Case(
        "hierarchical_sigmoid",
        _tree,
        op("hierarchical_sigmoid", num_classes=CLASSES),
        _torch_tree,
        ("X", "W", "Bias"),
        ("W", "Bias"),
        reason="scores of all nodes are kept for the gradient, clipped as Fluid clips them",
    ),
)
