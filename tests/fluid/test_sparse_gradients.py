"""Training an embedding with sparse gradients: as with dense ones, where Fluid's is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.core.dtypes import VarType

opt = fluid.optimizer
HEIGHT, WIDTH, RATE = 9, 4, 0.1
IDS = [[[1, 3], [3, 3]], [[8, 1], [0, 3]], [[2, 2], [2, 2]]]
MAKERS: dict[str, Any] = {
    "sgd": lambda **more: opt.SGD(RATE, **more),
    "momentum": lambda **more: opt.Momentum(RATE, 0.9, **more),
    "nesterov": lambda **more: opt.Momentum(RATE, 0.9, use_nesterov=True, **more),
    "decayed_adagrad": lambda **more: opt.DecayedAdagrad(RATE, **more),
    "adadelta": lambda **more: opt.Adadelta(RATE, **more),
    "adagrad": lambda **more: opt.Adagrad(RATE, **more),
    "adamax": lambda **more: opt.Adamax(RATE, **more),
    "rmsprop": lambda **more: opt.RMSProp(RATE, momentum=0.5, centered=True, **more),
    "ftrl": lambda **more: opt.Ftrl(RATE, l1=0.01, l2=0.02, **more),
    "lamb": lambda **more: opt.Lamb(RATE, **more),
    "lars": lambda **more: opt.LarsMomentum(RATE, 0.9, **more),
}
# Of these, rows that no batch has had yet are zero in the dense computation too.
FROM_ZERO = {"ftrl"}


def build(
    make: Any, sparse: bool, height: int = HEIGHT, width: int = WIDTH, pad: Any = None
) -> Any:
    """Main and startup program of mean(tanh(table[ids]) * weights)."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 5
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        ids = fluid.data("ids", [-1, -1], "int64")
        attr = fluid.ParamAttr(name="table")
        found = fluid.embedding(
            ids, [height, width], is_sparse=sparse, padding_idx=pad, param_attr=attr
        )
        other = fluid.embedding(ids, [height, width], is_sparse=sparse, param_attr=attr)
        loss = fluid.layers.mean(fluid.layers.tanh(found) + 0.5 * fluid.layers.square(other))
        make().minimize(loss)
    return main, startup, loss


def train(make: Any, sparse: bool, pad: Any = None) -> np.ndarray[Any, Any]:
    """The table after three steps."""
    main, startup, _ = build(make, sparse, pad=pad)
    exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
    with fluid.scope_guard(scope):
        exe.run(startup)
        for ids in IDS:
            exe.run(main, {"ids": np.array(ids)})
        return np.array(scope.find_var("table").get_tensor())


@pytest.mark.parametrize("name", sorted(MAKERS.keys() - FROM_ZERO))
def test_as_with_dense_gradients(name: str) -> None:
    make = MAKERS[name]
    np.testing.assert_allclose(train(make, True), train(make, False), rtol=2e-5, atol=1e-6)


def test_ftrl_touches_the_rows_of_the_batch() -> None:
    sparse, dense = train(MAKERS["ftrl"], True), train(MAKERS["ftrl"], False)
    met = [1, 3]  # of the first batch: in a dense step the others lose what they start with
    np.testing.assert_allclose(sparse[met], dense[met], rtol=2e-5, atol=1e-6)
    assert not np.any(dense[4])
    assert np.any(sparse[4])


CLIPS = {
    "value": fluid.clip.GradientClipByValue(0.01),
    "norm": fluid.clip.GradientClipByNorm(0.02),
    "global": fluid.clip.GradientClipByGlobalNorm(0.02),
}


@pytest.mark.parametrize("clip", CLIPS)
def test_clipped(clip: str) -> None:
    def make() -> Any:
        return opt.SGD(RATE, grad_clip=CLIPS[clip])

    np.testing.assert_allclose(train(make, True), train(make, False), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("decay", [fluid.regularizer.L1Decay(0.1), fluid.regularizer.L2Decay(0.1)])
def test_decayed(decay: Any) -> None:
    def make() -> Any:
        return opt.Momentum(RATE, 0.9, regularization=decay)

    np.testing.assert_allclose(train(make, True), train(make, False), rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", ["sgd", "lamb", "lars"])
def test_only_a_sparse_gradient_keeps_the_row_of_padding(name: str) -> None:
    """The row of padding counts in norms over the whole table, as the other rows show."""
    dense, sparse, whole = (
        train(MAKERS[name], kind, pad=pad) for kind, pad in ((False, 3), (True, 3), (True, None))
    )
    others = np.arange(HEIGHT) != 3
    assert not np.allclose(sparse[3], dense[3], rtol=1e-4)
    if name == "sgd":
        np.testing.assert_allclose(sparse[others], dense[others], rtol=2e-5, atol=1e-6)
    else:
        assert not np.allclose(sparse[others], dense[others], rtol=1e-6)
    assert not np.allclose(sparse, whole, rtol=1e-4)


def test_clipping_by_global_norm_counts_the_row_of_padding() -> None:
    def make() -> Any:
        return opt.SGD(RATE, grad_clip=CLIPS["global"])

    dense, sparse = (train(make, kind, pad=3) for kind in (False, True))
    others = np.arange(HEIGHT) != 3
    assert not np.allclose(sparse[others], dense[others], rtol=1e-6)


def _adam(ids: list[list[list[int]]], lazy: bool) -> np.ndarray[Any, Any]:
    """Adam in NumPy, of the gradient mean(table[ids]), the powers a step ahead."""
    table = np.full((HEIGHT, WIDTH), 0.5)
    first, second = np.zeros_like(table), np.zeros_like(table)
    for number, batch in enumerate(ids):
        flat = np.array(batch).reshape(-1)
        grad = np.zeros_like(table)
        np.add.at(grad, flat, 1.0 / (flat.size * WIDTH))
        rows = np.unique(flat) if lazy else np.arange(HEIGHT)
        first[rows] = 0.9 * first[rows] + 0.1 * grad[rows]
        second[rows] = 0.999 * second[rows] + 0.001 * grad[rows] ** 2
        rate = RATE * np.sqrt(1 - 0.999 ** (number + 2)) / (1 - 0.9 ** (number + 2))
        table[rows] -= rate * first[rows] / (np.sqrt(second[rows]) + 1e-8)
    return table


@pytest.mark.parametrize("lazy", [False, True])
def test_adam(lazy: bool) -> None:
    main, startup, scope = fluid.Program(), fluid.Program(), fluid.Scope()
    with fluid.program_guard(main, startup):
        attr = fluid.ParamAttr(name="table", initializer=fluid.initializer.Constant(0.5))
        ids = fluid.data("ids", [-1, -1], "int64")
        found = fluid.embedding(ids, [HEIGHT, WIDTH], is_sparse=True, param_attr=attr)
        opt.Adam(RATE, lazy_mode=lazy).minimize(fluid.layers.mean(found))
    exe = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(scope):
        exe.run(startup)
        for batch in IDS:
            exe.run(main, {"ids": np.array(batch)})
        table = np.array(scope.find_var("table").get_tensor())
    np.testing.assert_allclose(table, _adam(IDS, lazy), rtol=1e-4)


def test_gradient_variables_are_sparse() -> None:
    main, _, _ = build(MAKERS["sgd"], True)
    kinds = {name: var.type for name, var in main.global_block().vars.items()}
    parts = [kind for name, kind in kinds.items() if name.startswith("table@GRAD")]
    assert parts == [VarType.SELECTED_ROWS] * 3
    assert kinds["table"] == VarType.LOD_TENSOR


CLASSES = {
    "nce": lambda x, y, sparse: fluid.layers.nce(
        x, y, 6, num_neg_samples=2, seed=3, is_sparse=sparse, param_attr="w", bias_attr="b"
    ),
    "hsigmoid": lambda x, y, sparse: fluid.layers.hsigmoid(
        x, y, 6, is_sparse=sparse, param_attr="w", bias_attr="b"
    ),
}


@pytest.mark.parametrize("name", CLASSES)
def test_only_weights_of_classes_have_sparse_gradients(name: str) -> None:
    trained = []
    for sparse in (False, True):
        main, startup = fluid.Program(), fluid.Program()
        main.random_seed = startup.random_seed = 1
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, y = fluid.data("x", [None, 3]), fluid.data("y", [None, 1], "int64")
            loss = fluid.layers.mean(CLASSES[name](x, y, sparse))
            clip = fluid.clip.GradientClipByGlobalNorm(0.1)
            opt.Adam(0.1).minimize(loss)
            opt.Adagrad(0.1, grad_clip=clip).minimize(loss)
        kinds = {one.name: one.type for one in main.list_vars()}
        rows = VarType.SELECTED_ROWS if sparse else VarType.LOD_TENSOR
        assert (kinds["w@GRAD"], kinds["b@GRAD"]) == (rows, VarType.LOD_TENSOR)
        feed = {"x": np.ones((4, 3), "float32"), "y": np.array([[0], [3], [5], [3]])}
        scope, exe = fluid.Scope(), fluid.Executor()
        exe.run(startup, scope=scope)
        exe.run(main, feed, scope=scope)
        trained.append(np.array(scope.find_var("b").get_tensor()))
    np.testing.assert_allclose(trained[0], trained[1], rtol=1e-4)


LAZY = {
    "sgd": MAKERS["sgd"],
    "adagrad": MAKERS["adagrad"],
    "ftrl": MAKERS["ftrl"],
    "lazy_adam": lambda: opt.Adam(RATE, lazy_mode=True),
}


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Threads that wait for each other on a busy machine would be all that is measured."""
    former = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(former)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("name", LAZY)
def test_time_does_not_grow_with_the_table(name: str) -> None:
    times = []
    for height in (1000, 300_000):
        main, startup, _ = build(LAZY[name], True, height, 16)
        exe, scope = fluid.Executor(fluid.CPUPlace()), fluid.Scope()
        ids = np.random.RandomState(0).randint(0, 1000, (64, 1))
        with fluid.scope_guard(scope):
            exe.run(startup)
            best = float("inf")
            for _ in range(12):
                start = time.thread_time()  # what others do on the machine isn't in it
                exe.run(main, {"ids": ids})
                best = min(best, time.thread_time() - start)
        times.append(best)
    # A pass over the larger table takes more than ten times as long as the smaller step.
    assert times[1] < 5 * times[0]
