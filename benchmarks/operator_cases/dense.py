"""Elementwise, reducing, arranging and loss operators."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.case import Array, Case, Random, draw, normal, op

IMAGES = (32, 64, 28, 28)
LOGITS = (256, 10000)


def _one(op_type: str, peer: Callable[[Tensor], Tensor], **attrs: Any) -> Case:
    """An operator of one input shaped as images."""
    return Case(op_type, draw(X=IMAGES), op(op_type, **attrs), peer, ("X",))


def _labelled(random: Random) -> Mapping[str, Array]:
    return {"Logits": normal(random, *LOGITS), "Label": random.randint(0, LOGITS[1], (256, 1))}


def _soft(random: Random) -> Mapping[str, Array]:
    label = random.random_sample(LOGITS).astype("float32")
    return {"Logits": normal(random, *LOGITS), "Label": label / label.sum(1, keepdims=True)}


def _chances(random: Random) -> Mapping[str, Array]:
    chance = random.random_sample((131072, 50)).astype("float32") + 0.01
    chance /= chance.sum(1, keepdims=True)
    return {"X": chance, "Label": random.randint(0, 50, (131072, 1))}


def _rows(name: str, *shape: int) -> Callable[[Random], Mapping[str, Array]]:
    def inputs(random: Random) -> Mapping[str, Array]:
        return {"X": normal(random, *shape), name: random.permutation(shape[0])[:5000]}

    return inputs


def _several(random: Random) -> Mapping[str, Array]:
    return {f"X{place}": normal(random, 64, 32, 56, 14) for place in range(4)}


def _true_and_false(random: Random) -> Mapping[str, Array]:
    label = random.randint(0, 2, (512, 1000)).astype("float32")
    return {"X": normal(random, 512, 1000), "Label": label}


def _log_chances(random: Random) -> Mapping[str, Array]:
    target = random.random_sample((512, 1000)).astype("float32")
    return {"X": normal(random, 512, 1000), "Target": target}


def _squares(x: Tensor, y: Tensor) -> Tensor:
    return F.huber_loss(x, y, reduction="none")


CASES = (
    Case(
        "elementwise_add, a number per channel",
        draw(X=IMAGES, Y=(64,)),
        op("elementwise_add", axis=1),
        lambda x, y: x + y[:, None, None],
        ("X", "Y"),
        hands_on=True,
    ),
    Case(
        "elementwise_mul, a number per row",
        draw(X=(8192, 512), Y=(8192,)),
        op("elementwise_mul", axis=0),
        lambda x, y: x * y[:, None],
        ("X", "Y"),
    ),
    Case(
        "elementwise_div",
        draw(X=IMAGES, Y=IMAGES),
        op("elementwise_div"),
        lambda x, y: x / y,
        ("X", "Y"),
    ),
    Case(
        "elementwise_max",
        draw(X=IMAGES, Y=IMAGES),
        op("elementwise_max"),
        torch.maximum,
        ("X", "Y"),
    ),
    _one("relu", torch.relu),
    _one("sigmoid", torch.sigmoid),
    _one("gelu", F.gelu),
    _one("leaky_relu", lambda x: F.leaky_relu(x, 0.02), alpha=0.02),
    _one("swish", F.silu, beta=1.0),
    _one("hard_swish", F.hardswish),
    _one("maxout", lambda x: x.view(32, 32, 2, 28, 28).amax(2), groups=2),
    _one("softmax", lambda x: torch.softmax(x, -1)),
    _one("clip", lambda x: x.clamp(-1, 1), min=-1.0, max=1.0),
    _one("scale", lambda x: x * 2 + 1, scale=2.0, bias=1.0),
    Case(
        "reduce_sum",
        draw(X=IMAGES),
        op("reduce_sum", dim=[2, 3]),
        lambda x: x.sum((2, 3)),
        ("X",),
        reason="PyTorch's gradient is a view of one number per plane; writing it out fills memory",
    ),
    _one("reduce_mean", lambda x: x.mean(1), dim=[1]),
    _one("reduce_max", lambda x: x.amax((2, 3)), dim=[2, 3]),
    _one("transpose2", lambda x: x.permute(0, 2, 3, 1).contiguous(), axis=[0, 2, 3, 1]),
    _one("pad2d", lambda x: F.pad(x, (2, 2, 2, 2), "reflect"), paddings=[2] * 4, mode="reflect"),
    _one("cumsum", lambda x: x.cumsum(1), axis=1),
    Case(
        "dropout",
        draw(X=(4096, 512)),
        op("dropout", dropout_prob=0.3, dropout_implementation="upscale_in_train"),
        lambda x: F.dropout(x, 0.3),
        ("X",),
        same=False,
    ),
    Case(
        "top_k",
        draw(X=LOGITS),
        op("top_k", k=10),
        lambda x: x.topk(10).values,
        ("X",),
    ),
    Case("argsort", draw(X=(512, 1000)), op("argsort"), lambda x: x.sort().values, ("X",)),
    Case(
        "matmul, transposed and scaled",
        draw(X=(64, 128, 64), Y=(64, 128, 64)),
        op("matmul", transpose_Y=True, alpha=0.125),
        lambda x, y: torch.matmul(x, y.transpose(1, 2)) * 0.125,
        ("X", "Y"),
    ),
    Case("mul", draw(X=(512, 512), Y=(512, 512)), op("mul"), torch.mm, ("X", "Y"), ("Y",)),
    Case(
        "concat",
        _several,
        op("concat", axis=1),
        lambda *x: torch.cat(x, 1),
        ("X0", "X3"),
        hands_on=True,
    ),
    Case(
        "sum",
        _several,
        op("sum"),
        lambda a, b, c, d: a + b + c + d,
        ("X0", "X3"),
        hands_on=True,
    ),
    Case(
        "gather",
        _rows("Index", 20000, 128),
        op("gather"),
        lambda x, index: x.index_select(0, index),
        ("X",),
    ),
    Case(
        "softmax_with_cross_entropy",
        _labelled,
        op("softmax_with_cross_entropy", "Loss"),
        lambda x, label: F.cross_entropy(x, label[:, 0], reduction="none")[:, None],
        ("Logits",),
    ),
    Case(
        "softmax_with_cross_entropy, soft labels",
        _soft,
        op("softmax_with_cross_entropy", "Loss", soft_label=True),
        lambda x, label: F.cross_entropy(x, label, reduction="none")[:, None],
        ("Logits",),
    ),
    Case(
        "cross_entropy",
        _chances,
        op("cross_entropy", "Y"),
        lambda x, label: -x.gather(1, label).log(),
        ("X",),
    ),
    Case(
        "sigmoid_cross_entropy_with_logits",
        _true_and_false,
        op("sigmoid_cross_entropy_with_logits"),
        lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
        ("X",),
    ),
    Case(
        "huber_loss",
        draw(X=(8192, 64), Y=(8192, 64)),
        op("huber_loss", delta=1.0),
        _squares,
        ("X",),
    ),
    Case(
        "kldiv_loss",
        _log_chances,
        op("kldiv_loss", "Loss", reduction="mean"),
        lambda x, y: (F.kl_div(x, y, reduction="sum") / x.numel()).reshape(1),
        ("X",),
    ),
)
