"""Every pair of strategy switches gives the losses of the plain Executor, within 1e-5."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.ir.program import Program
from tests.choices import often
from tests.fluid.strategy_pairs import (
    SWITCHES,
    WATCHERS,
    all_pairs,
    compile_as,
    pairs_of,
    repeats,
    running,
)

layers = fluid.layers
ROWS = all_pairs()
STEPS, BATCH, CLASSES = 4, 8, 5


@dataclass
class Trained:
    """A network, its loss and the batches it is given, from one start."""

    main: Program
    loss: Any
    feeds: list[dict[str, Any]]
    start: dict[str, Any] = field(default_factory=dict)

    def losses(self, program: Any = None, times: int = 1) -> list[float]:
        """With a batch `times` times in a row."""
        scope, executor = fluid.Scope(), fluid.Executor()
        for name, value in self.start.items():
            scope.var(name).value = value.clone()
        found = [
            executor.run(program or self.main, feed=feed, fetch_list=[self.loss], scope=scope)
            for feed in self.feeds
            for _ in range(times)
        ]
        return [float(np.mean(one[0])) for one in found]


def trained(build: Callable[[], tuple[Any, Any]], feed: Callable[[Any], dict[str, Any]]) -> Trained:
    """`build` gives logits and an optimizer; `feed` one batch beside its labels."""
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    main.random_seed = startup.random_seed = 11
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        label = fluid.data("label", [None, 1], "int64")
        logits, optimizer = build()
        loss = layers.mean(layers.cross_entropy(layers.softmax(logits), label))
        optimizer.minimize(loss)
    fluid.Executor().run(startup, scope=scope)
    random = np.random.RandomState(3)
    feeds = [feed(random) | {"label": random.randint(0, CLASSES, (BATCH, 1))} for _ in range(STEPS)]
    kept = {var.name: scope.find_var(var.name) for var in main.list_vars() if var.persistable}
    start = {name: cell.value for name, cell in kept.items() if cell is not None}
    return Trained(main, loss, feeds, start)


def perceptron() -> tuple[Any, Any]:
    hidden = layers.fc(fluid.data("x", [None, 12]), 16, act="relu")
    hidden = layers.fc(hidden, 16, act="tanh")
    decay = fluid.regularizer.L2Decay(1e-3)
    return layers.fc(hidden, CLASSES), fluid.optimizer.Adam(1e-2, regularization=decay)


def image_net() -> tuple[Any, Any]:
    x = layers.conv2d(fluid.data("x", [None, 3, 8, 8]), 6, 3, padding=1)
    inner = layers.batch_norm(layers.conv2d(x, 6, 3, padding=1, bias_attr=False), act="relu")
    inner = layers.batch_norm(layers.conv2d(inner, 6, 3, padding=1, bias_attr=False))
    x = layers.relu(layers.elementwise_add(inner, x))
    x = layers.conv2d(x, 6, 3, padding=1, groups=6, use_cudnn=False, bias_attr=False)
    x = layers.pool2d(layers.batch_norm(x, act="relu"), pool_type="avg", global_pooling=True)
    return layers.fc(x, CLASSES), fluid.optimizer.Momentum(0.05, 0.9)


def clicks() -> tuple[Any, Any]:
    slots = [fluid.data(f"slot{one}", [None, 1], "int64") for one in range(3)]
    table = fluid.ParamAttr(name="table")
    words = [fluid.embedding(slot, [30, 6], is_sparse=True, param_attr=table) for slot in slots]
    merged = layers.concat([layers.reshape(word, [-1, 6]) for word in words], axis=1)
    hidden = layers.fc(layers.fc(merged, 16, act="relu"), 16, act="relu")
    return layers.fc(hidden, CLASSES), fluid.optimizer.Adagrad(0.05)


def attention() -> tuple[Any, Any]:
    x = fluid.data("x", [None, 6, 8])
    queries, keys, values = (layers.fc(x, 8, num_flatten_dims=2) for _ in range(3))
    weights = layers.softmax(layers.matmul(queries, keys, transpose_y=True, alpha=0.35))
    x = layers.layer_norm(x + layers.matmul(weights, values), begin_norm_axis=2)
    x = x + layers.fc(layers.fc(x, 16, num_flatten_dims=2, act="relu"), 8, num_flatten_dims=2)
    clip = fluid.clip.GradientClipByGlobalNorm(0.5)
    return layers.fc(layers.reduce_mean(x, 1), CLASSES), fluid.optimizer.Adam(1e-2, grad_clip=clip)


def sentences() -> tuple[Any, Any]:
    words = fluid.data("words", [None, 1], "int64", lod_level=1)
    x = layers.fc(fluid.embedding(words, [20, 8]), 32)
    hidden, _ = layers.dynamic_lstm(x, 32, use_peepholes=False)
    pooled = layers.sequence_pool(hidden, "max")
    return layers.fc(pooled, CLASSES, act="relu"), fluid.optimizer.RMSProp(1e-2)


def _sentences(random: Any) -> dict[str, Any]:
    lengths = [int(one) for one in random.randint(1, 6, BATCH)]
    words = random.randint(0, 20, (sum(lengths), 1))
    return {"words": fluid.create_lod_tensor(words, [lengths], fluid.CPUPlace())}


NETWORKS = {
    "perceptron": (perceptron, lambda r: {"x": r.randn(BATCH, 12).astype("float32")}),
    "image_net": (image_net, lambda r: {"x": r.randn(BATCH, 3, 8, 8).astype("float32")}),
    "clicks": (clicks, lambda r: {f"slot{i}": r.randint(0, 30, (BATCH, 1)) for i in range(3)}),
    "attention": (attention, lambda r: {"x": r.randn(BATCH, 6, 8).astype("float32")}),
    "sentences": (sentences, _sentences),
}


def test_every_pair_of_switches_occurs() -> None:
    found = {frozenset(pair) for row in ROWS for pair in pairs_of(row)}
    values = [(name, value) for name in SWITCHES for value in SWITCHES[name]]
    expected = {frozenset((a, b)) for a in values for b in values if a[0] != b[0]}
    assert found == expected
    assert len(ROWS) < 30


@pytest.mark.parametrize("network", often(NETWORKS, NETWORKS.keys() - {"attention"}))
def test_small_networks(network: str) -> None:
    net = trained(*NETWORKS[network])
    plain = {times: net.losses(times=times) for times in SWITCHES["num_iteration_per_run"]}
    assert plain[1][-1] != plain[1][0]
    watched = [ROWS[-number] | {flag: True} for number, flag in enumerate(WATCHERS)]
    for row in [*ROWS, *watched]:
        times = repeats(row)
        # Without it, statistics are those of a part of the batch.
        whole = row | {"sync_batch_norm": row["sync_batch_norm"] or row["places"] > 1}
        with running(row):
            found = net.losses(compile_as(net.main, net.loss.name, whole))
        expected = plain[times][times - 1 :: times]
        np.testing.assert_allclose(found, expected, rtol=1e-5, err_msg=str(row))
