"""Layers on sequences."""

from __future__ import annotations

import numpy as np

from refluid import fluid
from tests.fluid.examples.feeds import Build, x

L = fluid.layers


def rows(*shape: int, name: str = "x", dtype: str = "float32", levels: int = 1) -> fluid.Variable:
    """A fed variable with sequences."""
    return fluid.data(name=name, shape=list(shape), dtype=dtype, lod_level=levels)


def free(*shape: int, name: str, dtype: str = "float32", levels: int = 1) -> fluid.Variable:
    """A fed variable with sequences whose data are not checked."""
    return L.data(name=name, shape=list(shape), dtype=dtype, lod_level=levels)


def _matrix_sizes() -> tuple[fluid.Variable, fluid.Variable, fluid.Variable]:
    return rows(-1, 1), rows(-1, 6, name="row"), rows(-1, 6, name="col")


def _topk_avg_pooling() -> None:
    data, row, col = _matrix_sizes()
    fluid.contrib.layers.sequence_topk_avg_pooling(
        input=data, row=row, col=col, topks=[1, 3, 5], channel_num=5
    )


def _var_conv() -> None:
    data, row, col = _matrix_sizes()
    fluid.contrib.layers.var_conv_2d(
        input=data, row=row, col=col, input_channel=3, output_channel=5, filter_size=[3, 3]
    )


def _match() -> None:
    fluid.contrib.layers.match_matrix_tensor(
        x=rows(-1, 10), y=rows(-1, 10, name="y"), channel_num=3
    )


def _greedy_decoder() -> None:
    L.ctc_greedy_decoder(input=rows(-1, 8), blank=0)
    padded, lengths = x(10, 4, 8, name="x_pad"), x(10, 1, name="x_pad_len", dtype="int64")
    L.ctc_greedy_decoder(input=padded, blank=0, input_length=lengths)


def _zero() -> fluid.Variable:
    return L.assign(input=np.array([0.0], dtype=np.float32))


def _unpad() -> None:
    padded, lengths = L.sequence_pad(x=rows(10, 5), pad_value=_zero())
    L.sequence_unpad(x=padded, length=lengths)


def _scatter() -> None:
    data = free(3, 6, name="x", levels=0)
    index = rows(12, 1, name="index", dtype="int64")
    updates = rows(12, 1, name="updates")
    L.sequence_scatter(input=data, index=index, updates=updates)


def _warpctc_padded() -> None:
    L.warpctc(
        input=x(5, 16, 6, name="logits"),
        label=x(16, 3, name="label", dtype="int32"),
        input_length=x(-1, name="logits_length", dtype="int64"),
        label_length=x(-1, name="labels_length", dtype="int64"),
    )


def _conv_pool() -> None:
    words = rows(-1, 1, name="words", dtype="int64")
    embedded = L.embedding(input=words, size=[100, 128], is_sparse=True)
    fluid.nets.sequence_conv_pool(
        input=embedded, num_filters=512, filter_size=3, act="tanh", pool_type="sqrt"
    )


EXAMPLES: dict[str, Build] = {
    "contrib.match_matrix_tensor-0": _match,
    "contrib.sequence_topk_avg_pooling-0": _topk_avg_pooling,
    "contrib.var_conv_2d-0": _var_conv,
    "layers.ctc_greedy_decoder-0": _greedy_decoder,
    "layers.im2sequence-0": lambda: L.im2sequence(
        x(-1, 3, 32, 32, name="data"), filter_size=[2, 2], stride=[1, 1]
    ),
    "layers.lod_append-0": lambda: L.lod_append(free(6, 10, name="x"), [1, 1, 1, 1, 1, 1]),
    "layers.lod_reset-0": lambda: L.lod_reset(
        free(10, name="x", levels=0), y=free(10, 20, name="y", levels=2)
    ),
    "layers.sequence_conv-0": lambda: L.sequence_conv(rows(-1, 10), num_filters=2, filter_size=3),
    "layers.sequence_enumerate-0": lambda: L.sequence_enumerate(
        rows(-1, 1, dtype="int32"), win_size=3, pad_value=0
    ),
    "layers.sequence_expand_as-0": lambda: L.sequence_expand_as(x(4, 1), rows(8, 1, name="y")),
    "layers.sequence_last_step-0": lambda: L.sequence_last_step(rows(-1, 10)),
    "layers.sequence_pad-0": lambda: L.sequence_pad(x=rows(10, 5), pad_value=_zero()),
    "layers.sequence_reshape-0": lambda: L.sequence_reshape(rows(-1, 16), new_dim=4),
    "layers.sequence_scatter-0": _scatter,
    "layers.sequence_unpad-0": _unpad,
    "layers.shard_index-0": lambda: L.shard_index(
        input=x(32, 1, name="label", dtype="int64"), index_num=20, nshards=2, shard_id=0
    ),
    "layers.warpctc-0": lambda: L.warpctc(
        input=rows(-1, 6, name="logits"), label=rows(-1, 1, name="label", dtype="int32")
    ),
    "layers.warpctc-1": _warpctc_padded,
    "nets.sequence_conv_pool-0": _conv_pool,
}
