"""Sparse tables that only loops and branches look up: their gradients are rows outside as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.dtypes import VarType
from tests.fluid.once import own_programs

L = fluid.layers
WORDS, WIDTH = 12, 3


def _looked_up(ids: Any, sparse: bool) -> Any:
    table = fluid.ParamAttr("table", initializer=fluid.initializer.Uniform(-1.0, 1.0, seed=5))
    return L.reshape(L.embedding(ids, [WORDS, WIDTH], sparse, param_attr=table), [-1, WIDTH])


def _dynamic(ids: Any, sparse: bool) -> Any:
    rnn = L.DynamicRNN()
    with rnn.block():
        word = rnn.step_input(ids)
        memory = rnn.memory(shape=[WIDTH], value=0.0)
        state = L.tanh(L.elementwise_add(_looked_up(word, sparse), memory))
        rnn.update_memory(memory, state)
        rnn.output(state)
    return rnn()


def _static(ids: Any, sparse: bool) -> Any:
    rnn, steps = L.StaticRNN(), L.unsqueeze(ids, [1])
    start = L.fill_constant([1, WIDTH], "float32", 0.0)
    with rnn.step():
        word, memory = rnn.step_input(steps), rnn.memory(init=start)
        state = L.tanh(L.elementwise_add(_looked_up(word, sparse), memory))
        rnn.update_memory(memory, state)
        rnn.step_output(state)
    return rnn()


def _while(ids: Any, sparse: bool) -> Any:
    place, end = L.fill_constant([1], "int64", 0), L.fill_constant([1], "int64", 3)
    sums = L.create_array("float32")
    going = L.less_than(place, end)
    with L.While(going).block():
        L.array_write(L.scale(_looked_up(ids, sparse), 2.0), place, sums)
        L.increment(place, 1, in_place=True)
        L.less_than(place, end, cond=going)
    last = L.array_read(sums, L.fill_constant([1], "int64", 2))
    return L.elementwise_mul(last, _numbers(ids))


def _numbers(ids: Any) -> Any:
    return L.cast(ids, "float32")


def _cond(ids: Any, sparse: bool) -> Any:
    many = L.greater_than(L.reduce_sum(ids), L.fill_constant([1], "int64", 20))
    return L.cond(many, lambda: _looked_up(ids, sparse), lambda: L.scale(_numbers(ids), 1.0))


NETWORKS: dict[str, Callable[[Any, bool], Any]] = {
    "DynamicRNN": _dynamic,
    "StaticRNN": _static,
    "While": _while,
    "cond": _cond,
}


def _trained(name: str, sparse: bool, optimizer: Any) -> Any:
    """The table after some steps, and whether its gradient is declared as rows."""
    with own_programs():
        ids = fluid.data("ids", [None, 1], "int64", lod_level=1)
        other = L.fc(_numbers(ids), WIDTH, param_attr=fluid.initializer.Constant(0.3))
        out = L.elementwise_add(L.reduce_mean(NETWORKS[name](ids, sparse)), L.reduce_mean(other))
        optimizer().minimize(L.mean(out))
        executor, scope = fluid.Executor(), fluid.Scope()
        executor.run(fluid.default_startup_program(), scope=scope)
        for seed in range(3):
            values = np.random.RandomState(seed).randint(0, WORDS, (7, 1))
            given = fluid.create_lod_tensor(values, [[4, 1, 2]], fluid.CPUPlace())
            executor.run(feed={"ids": given}, scope=scope)
        grad = fluid.default_main_program().global_block().var("table@GRAD")
        return np.array(scope.find_var("table").get_tensor()), grad.type


@pytest.mark.parametrize("optimizer", [fluid.optimizer.SGD, fluid.optimizer.Adagrad])
@pytest.mark.parametrize("name", NETWORKS)
def test_rows_train_as_whole_tables_do(name: str, optimizer: Any) -> None:
    rows, kind = _trained(name, True, lambda: optimizer(0.1))
    whole, plain = _trained(name, False, lambda: optimizer(0.1))
    assert (kind, plain) == (VarType.SELECTED_ROWS, VarType.LOD_TENSOR)
    assert np.abs(whole).max() > 0
    np.testing.assert_allclose(rows, whole, rtol=1e-5, atol=1e-6)


def test_a_branch_that_is_not_taken_moves_no_row() -> None:
    """Its gradient has no rows: not zeros for all of them, with which all moments would move."""
    with own_programs():
        ids = fluid.data("ids", [None, 1], "int64")
        out = L.reduce_mean(_cond(ids, True))
        clip = fluid.clip.GradientClipByGlobalNorm(0.1)
        fluid.optimizer.Adam(0.1, lazy_mode=True, grad_clip=clip).minimize(out)
        executor, scope, tables = fluid.Executor(), fluid.Scope(), []
        executor.run(fluid.default_startup_program(), scope=scope)
        for values in ([[9], [10], [11]], [[1], [2], [3]], [[9], [9], [8]]):
            executor.run(feed={"ids": np.array(values)}, scope=scope)
            tables.append(np.array(scope.find_var("table").get_tensor()))
    assert np.array_equal(tables[0], tables[1])
    moved = np.abs(tables[2] - tables[1]).max(1).nonzero()[0]
    assert moved.tolist() == [8, 9]


def _repeated(ids: Any, rounds: Any) -> Any:
    """What a table gives for ids, added up so many times, and 1."""

    def body(place: Any, total: Any) -> list[Any]:
        return [place + 1, total + L.reduce_sum(_looked_up(ids, True))]

    start = [L.fill_constant([1], "int64", 0), L.fill_constant([1], "float32", 1.0)]
    start[1].stop_gradient = False
    return L.while_loop(lambda place, _: L.less_than(place, rounds), body, start)[1]


def test_a_loop_without_rounds_moves_no_row() -> None:
    """As a branch that is not taken: moments of rows that came before stay, too."""
    with own_programs():
        ids, rounds = fluid.data("ids", [None, 1], "int64"), fluid.data("rounds", [1], "int64")
        total = L.square(_repeated(ids, rounds))
        fluid.optimizer.Adam(0.1, lazy_mode=True).minimize(total)
        executor, scope, moved, kinds = fluid.Executor(), fluid.Scope(), [], []
        executor.run(fluid.default_startup_program(), scope=scope)
        for count in (2, 0, 1, 0, 0, 3):  # a step is recorded from its second time on
            before = np.array(scope.find_var("table").get_tensor())
            feed = {"ids": np.array([[1], [4], [4]]), "rounds": np.array([count])}
            grad = executor.run(
                feed=feed, fetch_list=["table@GRAD"], scope=scope, return_numpy=False
            )[0]
            kinds.append((grad.height(), sorted(grad.rows())))
            after = np.array(scope.find_var("table").get_tensor())
            moved.append(np.abs(after - before).max(1).nonzero()[0].tolist())
    assert moved == [[1, 4], [], [1, 4], [], [], [1, 4]]
    assert kinds == [(WORDS, sorted([1, 4, 4] * count)) for count in (2, 0, 1, 0, 0, 3)]


def test_no_time_steps_are_an_error_in_words() -> None:
    with own_programs():
        steps = fluid.data("steps", [None, 2, WIDTH], "float32")
        rnn, start = L.StaticRNN(), L.fill_constant([2, WIDTH], "float32", 0.0)
        with rnn.step():
            word, memory = rnn.step_input(steps), rnn.memory(init=start)
            rnn.update_memory(memory, word)
            rnn.step_output(memory + word)
        out, executor = rnn(), fluid.Executor()
        with pytest.raises(fluid.core.EnforceNotMet, match="no time steps"):
            executor.run(feed={"steps": np.zeros((0, 2, WIDTH), "float32")}, fetch_list=[out])


def test_a_loop_without_rounds_has_a_gradient_that_can_be_clipped() -> None:
    with own_programs():
        ids, rounds = fluid.data("ids", [None, 1], "int64"), fluid.data("rounds", [1], "int64")
        total = _repeated(ids, rounds)
        clip = fluid.clip.GradientClipByGlobalNorm(0.1)
        fluid.optimizer.SGD(0.1, grad_clip=clip).minimize(L.square(total))
        executor, scope, moved = fluid.Executor(), fluid.Scope(), []
        executor.run(fluid.default_startup_program(), scope=scope)
        for count in (0, 2):
            before = np.array(scope.find_var("table").get_tensor())
            feed = {"ids": np.array([[1], [4]]), "rounds": np.array([count])}
            executor.run(feed=feed, scope=scope)
            after = np.array(scope.find_var("table").get_tensor())
            moved.append(np.abs(after - before).max(1).nonzero()[0].tolist())
    assert moved == [[], [1, 4]]
