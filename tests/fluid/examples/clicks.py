"""Layers for click-through models, and Python functions as operators."""

from __future__ import annotations

from typing import Any

import numpy as np

from refluid import fluid
from refluid.fluid.contrib.layers import columns, metric_op, trees
from tests.fluid.examples.feeds import Build, x

L = fluid.layers
_TREE = (
    (0, 0, 0, 1, 2),
    (0, 1, 0, 3, 4),
    (0, 1, 0, 5, 6),
    (0, 2, 1, 0, 0),
    (1, 2, 1, 0, 0),
    (2, 2, 2, 0, 0),
    (3, 2, 2, 0, 0),
)
_TRAVEL = ((1, 3), (1, 4), (2, 5), (2, 6))


def _table(values: Any) -> fluid.ParamAttr:
    array = np.array(values, dtype="int32")
    return fluid.ParamAttr(initializer=fluid.initializer.NumpyArrayInitializer(array))


def _nodes() -> fluid.Variable:
    return fluid.data(name="x", shape=[None, 1], dtype="int32", lod_level=1)


def _ctr_metrics() -> None:
    data, label = x(-1, 32, 32, name="data"), x(-1, 1, name="label", dtype="int32")
    metric_op.ctr_metric_bundle(L.sigmoid(L.fc(input=data, size=1)), label)


def _data_norm() -> None:
    L.data_norm(input=x(64, 200, name="hidden1"), name="hidden2")


def _filter_by_instag() -> None:
    ins = L.data(name="Ins", shape=[-1, 32], lod_level=0, dtype="float64")
    tags = L.data(name="Ins_tag", shape=[-1, 16], lod_level=0, dtype="int64")
    wanted = L.data(name="Filter_tag", shape=[-1, 16], dtype="int64")
    L.filter_by_instag(ins, tags, wanted, True)


def _shuffle_batch() -> None:
    np.random.seed(0)
    columns.shuffle_batch(x(-1, 4))


def _tdm_sampler() -> None:
    trees.tdm_sampler(
        _nodes(),
        [0, 0],
        [2, 4],
        4,
        tree_travel_attr=_table(_TRAVEL),
        tree_layer_attr=_table([[1], [2], [3], [4], [5], [6]]),
        output_positive=True,
        output_list=True,
        seed=0,
        tree_dtype="int32",
        dtype="int32",
    )


EXAMPLES: dict[str, Build] = {
    "contrib.ctr_metric_bundle-0": _ctr_metrics,
    "contrib.partial_concat-0": lambda: columns.partial_concat(
        [x(-1, 3), x(-1, 3, name="y")], start_index=0, length=2
    ),
    "contrib.shuffle_batch-0": _shuffle_batch,
    "contrib.tdm_child-0": lambda: trees.tdm_child(
        _nodes(), node_nums=7, child_nums=2, param_attr=_table(_TREE)
    ),
    "contrib.tdm_sampler-0": _tdm_sampler,
    "layers.data_norm-0": _data_norm,
    "layers.filter_by_instag-0": _filter_by_instag,
}
