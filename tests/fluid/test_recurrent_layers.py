"""Recurrent layers, sampled losses and beam search that no recording covers, by running them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.ir.program import Program
from tests.fluid.examples.feeds import x
from tests.fluid.test_structure import build

L = fluid.layers


def run(train: Callable[[], Any], feed: dict[str, Any], **more: Any) -> list[Any]:
    """What `train` returns, after one run of the programs it makes."""
    made: list[Any] = []

    def collect() -> None:
        made.extend(train())

    main, startup = build(collect)
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        fetched: list[Any] = executor.run(main, feed=feed, fetch_list=made, **more)
        return fetched


def types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_lstm_unit() -> None:
    def train() -> Any:
        states = x(None, 3, name="h"), x(None, 3, name="c")
        hidden, cell = L.lstm_unit(x(None, 5), *states, forget_bias=1.0)
        return hidden, cell

    feed = {name: np.ones((2, size), "float32") for name, size in (("x", 5), ("h", 3), ("c", 3))}
    hidden, cell = run(train, feed)
    assert hidden.shape == cell.shape == (2, 3)
    main = build(lambda: train() and None)[0]
    assert types(main) == ["concat", "mul", "elementwise_add", "lstm_unit"]
    with pytest.raises(ValueError, match="Rank of x_t must be 2"):
        build(lambda: L.lstm_unit(x(2, 5, 1), x(2, 3, name="h"), x(2, 3, name="c")))


def test_dense_lstm_learns() -> None:
    def train() -> Any:
        data = x(6, 2, 5)
        state, cell = (L.fill_constant([4, 2, 3], "float32", 0.0) for _ in range(2))
        out, *last = L.lstm(data, state, cell, 6, 3, 2, dropout_prob=0.2, is_bidirec=True)
        loss = L.mean(out)
        fluid.optimizer.SGD(0.1).minimize(loss)
        return out, *last, loss

    out, hidden, cell, _ = run(train, {"x": np.ones((6, 2, 5), "float32")})
    assert out.shape == (6, 2, 6)
    assert hidden.shape == cell.shape == (4, 2, 3)


@pytest.mark.parametrize("sampler", ["uniform", "log_uniform", "custom_dist"])
@pytest.mark.parametrize("sparse", [False, True])
def test_nce_learns(sampler: str, sparse: bool) -> None:
    def train() -> Any:
        cost = L.nce(
            x(None, 4),
            x(None, 1, name="label", dtype="int64"),
            num_total_classes=6,
            num_neg_samples=3,
            sampler=sampler,
            custom_dist=[0.3, 0.2, 0.2, 0.1, 0.1, 0.1] if sampler == "custom_dist" else None,
            seed=5,
            is_sparse=sparse,
        )
        fluid.optimizer.SGD(0.1).minimize(L.mean(cost))
        return [cost]

    feed = {"x": np.ones((2, 4), "float32"), "label": np.array([[1], [5]])}
    (cost,) = run(train, feed)
    assert cost.shape == (2, 1)
    assert np.isfinite(cost).all()
    with pytest.raises(ValueError, match="none of uniform"):
        build(lambda: L.nce(x(2, 4), x(2, 1, name="y", dtype="int64"), 6, sampler="other"))


@pytest.mark.parametrize("sparse", [False, True])
def test_hsigmoid_learns_with_a_tree_of_its_own(sparse: bool) -> None:
    def train() -> Any:
        path, code = x(None, 2, name="path", dtype="int64"), x(None, 2, name="code", dtype="int64")
        cost = L.hsigmoid(
            x(None, 4),
            x(None, 1, name="label", dtype="int64"),
            num_classes=3,
            path_table=path,
            path_code=code,
            is_custom=True,
            is_sparse=sparse,
        )
        fluid.optimizer.SGD(0.1).minimize(L.mean(cost))
        return [cost]

    feed = {
        "x": np.ones((2, 4), "float32"),
        "label": np.array([[1], [2]]),
        "path": np.array([[0, 2], [1, -1]]),
        "code": np.array([[1, 0], [0, -1]]),
    }
    assert run(train, feed)[0].shape == (2, 1)
    with pytest.raises(ValueError, match="must not be less than 2"):
        build(lambda: L.hsigmoid(x(2, 4), x(2, 1, name="y", dtype="int64"), num_classes=1))


def test_sampled_softmax_learns() -> None:
    def train() -> Any:
        logits = L.fc(x(None, 4), size=30)
        label = x(None, 1, name="label", dtype="int64")
        loss = L.sampled_softmax_with_cross_entropy(logits, label, num_samples=5, seed=1)
        fluid.optimizer.SGD(0.1).minimize(L.mean(loss))
        return [loss]

    feed = {"x": np.ones((2, 4), "float32"), "label": np.array([[3], [9]])}
    assert run(train, feed)[0].shape == (2, 1)


def test_beam_search_over_steps_is_decoded() -> None:
    def train() -> Any:
        ids = fluid.data("ids", [None, 1], "int64", lod_level=2)
        scores = fluid.data("scores", [None, 1], "float32", lod_level=2)
        chances = fluid.data("chances", [None, 4], "float32", lod_level=2)
        arrays = [L.create_array(dtype) for dtype in ("int64", "float32")]
        for array, first in zip(arrays, (ids, scores), strict=True):
            L.array_write(first, L.fill_constant([1], "int64", 0), array)
        chosen = L.beam_search(
            ids, scores, None, chances, 2, end_id=0, is_accumulated=False, return_parent_idx=True
        )
        for array, one in zip(arrays, chosen, strict=False):
            L.array_write(one, L.fill_constant([1], "int64", 1), array)
        return *L.beam_search_decode(*arrays, beam_size=2, end_id=0), chosen[2]

    def tensor(values: Any) -> Any:
        return fluid.create_lod_tensor(values, [[1, 1], [1, 1]], fluid.CPUPlace())

    feed = {
        "ids": tensor(np.array([[5], [6]])),
        "scores": tensor(np.zeros((2, 1), "float32")),
        "chances": tensor(np.array([[0.1, 0.2, 0.3, 0.4], [0.6, 0.1, 0.3, 0.0]], "float32")),
    }
    words, scores, parents = run(train, feed, return_numpy=False)
    assert np.array(words).tolist() == [5, 3, 5, 2, 6, 0, 6, 2]
    assert words.recursive_sequence_lengths() == [[2, 2], [2, 2, 2, 2]]
    assert scores.recursive_sequence_lengths() == words.recursive_sequence_lengths()
    assert np.array(parents).tolist() == [0, 0, 1, 1]


def test_gather_tree() -> None:
    def train() -> Any:
        ids, parents = (x(3, 2, 2, name=name, dtype="int64") for name in ("ids", "parents"))
        return [L.gather_tree(ids, parents)]

    ids = np.array([[[2, 2], [6, 1]], [[3, 9], [6, 1]], [[0, 1], [9, 0]]])
    parents = np.array([[[0, 0], [1, 1]], [[1, 0], [1, 0]], [[0, 0], [0, 1]]])
    (out,) = run(train, {"ids": ids, "parents": parents})
    assert out.tolist() == [[[2, 2], [1, 6]], [[3, 3], [6, 1]], [[0, 1], [9, 0]]]


def test_an_initial_state_must_fit() -> None:
    def train() -> None:
        data = fluid.data("x", [None, 12], "float32", lod_level=1)
        L.dynamic_gru(data, 4, h_0=x(None, 3, name="h"))

    with pytest.raises(AssertionError, match=r"should be \(batch_size, 4\)"):
        build(train)
