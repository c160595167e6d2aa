"""Picking, placing and repeating elements; losses and products of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from benchmarks.operator_cases.case import Array, Case, Random, draw, normal, op

ROWS, WIDTH, PICKED = 20000, 128, 5000
IMAGES = (16, 64, 28, 28)


def _placed(name: str) -> Callable[[Random], Mapping[str, Array]]:
    """Rows, which of them are meant (each once), and what happens to them."""

    def inputs(random: Random) -> Mapping[str, Array]:
        ids = random.permutation(ROWS)[:PICKED]
        return {
            "X": normal(random, ROWS, WIDTH),
            name: ids[:, None] if name == "Index" else ids,
            "Updates": normal(random, PICKED, WIDTH),
        }

    return inputs


def _points(random: Random) -> Mapping[str, Array]:
    return {"X": normal(random, 256, 256, 32), "Index": random.randint(0, 256, (PICKED, 2))}


def _words(random: Random) -> Mapping[str, Array]:
    return {"X": random.randint(0, 1000, (2048, 1))}


def _choices(random: Random) -> Mapping[str, Array]:
    ids = random.randint(0, 4, (4096, 1)).astype("int32")
    return {"Ids": ids, **{f"X{place}": normal(random, 4096, WIDTH) for place in range(4)}}


def _choose(ids: Tensor, *x: Tensor) -> Tensor:
    return torch.stack(x)[ids[:, 0].long(), torch.arange(len(ids))]


def _mask(random: Random) -> Mapping[str, Array]:
    return {"Condition": random.random_sample((1000, 500)) < 0.3}


def _spectral(random: Random) -> Mapping[str, Array]:
    return {
        "Weight": normal(random, 256, 128, 3, 3),
        "U": normal(random, 256),
        "V": normal(random, 128 * 9),
    }


def _by_spectrum(weight: Tensor, u: Tensor, v: Tensor) -> Tensor:
    rows = weight.flatten(1)
    with torch.no_grad():
        v = F.normalize(rows.t() @ u, dim=0)
        u = F.normalize(rows @ v, dim=0)
    return weight / (u @ (rows @ v))


def _shift(x: Tensor) -> Tensor:
    """A quarter of the channels of each of 8 frames from the frame before, one from the next."""
    frames = x.view(2, 8, *x.shape[1:])
    back = F.pad(frames[:, :-1, :16], (0, 0, 0, 0, 0, 0, 1, 0))
    ahead = F.pad(frames[:, 1:, 16:32], (0, 0, 0, 0, 0, 0, 0, 1))
    return torch.cat((back, ahead, frames[:, :, 32:]), 2).view_as(x)


def _scored(random: Random) -> Mapping[str, Array]:
    return {"X": normal(random, 512, 1000), "Label": random.randint(0, 1000, (512, 1))}


def _personal(x: Tensor, label: Tensor) -> Tensor:
    """The mean of -log(sigmoid(x at the label - x)) over the other classes."""
    loss = F.softplus(x - x.gather(1, label))
    return (loss.sum(1, keepdim=True) - loss.gather(1, label)) / (x.shape[1] - 1)


def _unary(op_type: str, peer: Callable[[Tensor], Tensor], result: str = "Out", **a: Any) -> Case:
    return Case(op_type, draw(X=IMAGES), op(op_type, result, **a), peer, ("X",))


def _sizes(**sizes: int) -> dict[str, Any]:
    return {f"out_{name}": size for name, size in sizes.items()}


CASES = (
    Case(
        "scatter",
        _placed("Ids"),
        op("scatter"),
        lambda x, ids, updates: x.index_copy(0, ids, updates),
        ("Updates",),  # Fluid's gradient of X also reaches the rows that are replaced
    ),
    Case(
        "scatter_nd_add",
        _placed("Index"),
        op("scatter_nd_add"),
        lambda x, index, updates: x.index_add(0, index[:, 0], updates),
        ("X", "Updates"),
        hands_on=True,
    ),
    Case(
        "gather_nd",
        _points,
        op("gather_nd"),
        lambda x, index: F.embedding(index[:, 0] * 256 + index[:, 1], x.view(-1, 32)),
        ("X",),
        reason="indices are compared with each dimension, PyTorch's with all rows alone",
    ),
    Case("one_hot", _words, op("one_hot", depth=1000), lambda x: F.one_hot(x[:, 0], 1000).float()),
    Case("multiplex", _choices, op("multiplex"), _choose, ("X0", "X1", "X2", "X3")),
    Case("where_index", _mask, op("where_index"), lambda condition: condition.nonzero()),
    _unary("expand", lambda x: x.repeat(1, 2, 1, 1), expand_times=[1, 2, 1, 1]),
    _unary("flip", lambda x: x.flip(1), dims=[1]),
    _unary("roll", lambda x: x.roll(3, 1), shifts=[3], dims=[1]),
    _unary("shuffle_channel", lambda x: F.channel_shuffle(x, 4), group=4),
    _unary("temporal_shift", _shift, seg_num=8, shift_ratio=0.25),
    _unary("norm", lambda x: F.normalize(x, dim=1), axis=1),
    _unary(
        "nearest_interp",
        lambda x: F.interpolate(x, size=(56, 56)),
        align_corners=False,
        interp_method="nearest",
        **_sizes(h=56, w=56),
    ),
    Case(
        "trilinear_interp",
        draw(X=(4, 16, 8, 28, 28)),
        op("trilinear_interp", interp_method="trilinear", **_sizes(d=16, h=56, w=56)),
        lambda x: F.interpolate(x, size=(16, 56, 56), mode="trilinear", align_corners=True),
        ("X",),
    ),
    Case(
        "spectral_norm",
        _spectral,
        op("spectral_norm"),
        _by_spectrum,
        (),  # its gradient is Fluid's own, not that of the function
        ("Weight", "U", "V"),
    ),
    Case(
        "bilinear_tensor_product",
        draw(X=(256, 64), Y=(256, 64), Weight=(32, 64, 64), Bias=(1, 32)),
        op("bilinear_tensor_product"),
        lambda x, y, w, b: F.bilinear(x, y, w, b[0]),
        ("X", "Y", "Weight", "Bias"),
        ("Weight", "Bias"),
    ),
    Case(
        "cos_sim",
        draw(X=(8192, WIDTH), Y=(8192, WIDTH)),
        op("cos_sim"),
        lambda x, y: F.cosine_similarity(x, y)[:, None],
        ("X", "Y"),
    ),
    Case(
        "smooth_l1_loss",
        draw(X=(8732, 64), Y=(8732, 64)),
        op("smooth_l1_loss", sigma=1.0),
        lambda x, y: F.smooth_l1_loss(x, y, reduction="none").sum(1, keepdim=True),
        ("X",),
    ),
    Case("bpr_loss", _scored, op("bpr_loss", "Y"), _personal, ("X",)),
)
