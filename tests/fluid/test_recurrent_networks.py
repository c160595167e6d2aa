"""Recurrent networks compute what a loop over steps would, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ir.attributes import OpRole
from refluid.ir.editor import Editor
from tests.fluid.once import Array, fed, loss, own_programs, run, values

L = fluid.layers


@pytest.fixture(autouse=True)
def _own_programs() -> Iterator[None]:
    with own_programs():
        yield


def _weights() -> tuple[Array, Array]:
    """Values of `w` (3, 2) and `u` (2, 2)."""
    return values(3, 2, seed=1), values(2, 2, seed=2)


def _cell(x: Any, hidden: Any) -> Any:
    w, u = (
        L.create_parameter(
            list(value.shape),
            "float32",
            name=name,
            default_initializer=fluid.initializer.NumpyArrayInitializer(value),
        )
        for name, value in zip("wu", _weights(), strict=True)
    )
    return L.tanh(L.matmul(x, w) + L.matmul(hidden, u))


def _torch_cell() -> tuple[list[torch.Tensor], Callable[..., torch.Tensor]]:
    w, u = (torch.tensor(value, requires_grad=True) for value in _weights())
    return [w, u], lambda x, hidden: torch.tanh(x @ w + hidden @ u)


def test_static_rnn_and_its_gradient() -> None:
    x = fed(5, 4, 3)
    rnn = L.StaticRNN()
    with rnn.step():
        part = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 2], batch_ref=part, init_value=0.5)
        hidden = _cell(part, before)
        rnn.update_memory(before, hidden)
        rnn.step_output(hidden)
    out = rnn()
    assert out.shape == (5, 4, 2)
    block = fluid.default_main_program().global_block()
    grads = fluid.gradients(loss(out), [x, block.var("w"), block.var("u")])
    value = values(5, 4, 3)
    made, *slopes = run([out, *grads], x=value)
    parameters, cell = _torch_cell()
    given = torch.tensor(value, requires_grad=True)
    states = [torch.full((4, 2), 0.5)]
    for step in given:
        states.append(cell(step, states[-1]))
    wanted = torch.stack(states[1:])
    wanted.square().sum().backward()
    assert np.allclose(made, wanted.detach(), atol=1e-6)
    for slope, tensor in zip(slopes, [given, *parameters], strict=True):
        assert np.allclose(slope, tensor.grad, atol=1e-5)


def test_dynamic_rnn_and_its_gradient() -> None:
    lengths = [2, 4, 1]
    x, init = fed(-1, 3, lod_level=1), fed(-1, 2, name="init")
    rnn = L.DynamicRNN()
    with rnn.block():
        part = rnn.step_input(x)
        before = rnn.memory(init=init, need_reorder=True)
        hidden = _cell(part, before)
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    out = rnn()
    block = fluid.default_main_program().global_block()
    grads = fluid.gradients(loss(out), [x, init, block.var("w"), block.var("u")])
    rows, first = values(7, 3), values(3, 2, seed=5)
    sentences = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
    made, *slopes = run([out, *grads], x=sentences, init=first)
    parameters, cell = _torch_cell()
    given, start = (torch.tensor(one, requires_grad=True) for one in (rows, first))
    outs = []
    for sequence, state in zip(given.split(lengths), start, strict=True):
        for row in sequence:
            state = cell(row, state)
            outs.append(state)
    wanted = torch.stack(outs)
    wanted.square().sum().backward()
    assert np.allclose(made, wanted.detach(), atol=1e-6)
    for slope, tensor in zip(slopes, [given, start, *parameters], strict=True):
        assert np.allclose(slope, tensor.grad, atol=1e-5)


def test_static_inputs_are_whole_in_each_step() -> None:
    x = fed(-1, 2, lod_level=1)
    static = fed(-1, 2, name="s", lod_level=1)
    rnn = L.DynamicRNN()
    with rnn.block():
        part = rnn.step_input(x)
        whole = rnn.static_input(static)
        rnn.output(L.sequence_pool(whole, "sum") * part)
    out = rnn()
    (grad,) = fluid.gradients(L.reduce_sum(out), static)
    rows, others = values(3, 2), values(4, 2, seed=3)
    place = fluid.CPUPlace()
    made, slope = run(
        [out, grad],
        x=fluid.create_lod_tensor(rows, [[1, 2]], place),
        s=fluid.create_lod_tensor(others, [[3, 1]], place),
    )
    sums = [others[:3].sum(0), others[3:].sum(0)]
    assert np.allclose(made, rows * np.stack([sums[0], sums[1], sums[1]]), atol=1e-6)
    wanted = np.stack([rows[0]] * 3 + [rows[1] + rows[2]])
    assert np.allclose(slope, wanted, atol=1e-6)


def test_steps_may_be_sequences() -> None:
    x = fed(-1, 2, lod_level=2)
    rnn = L.DynamicRNN()
    with rnn.block():
        part = L.sequence_pool(rnn.step_input(x), "sum")
        before = rnn.memory(shape=[2])
        rnn.update_memory(before, part + before)
        rnn.output(part + before)
    out = rnn()
    (grad,) = fluid.gradients(L.reduce_sum(out), x)
    rows = values(6, 2)
    nested = fluid.create_lod_tensor(rows, [[2, 1], [1, 2, 3]], fluid.CPUPlace())
    made, slope = run([out, grad], x=nested)
    sums = [rows[0], rows[:3].sum(0), rows[3:].sum(0)]
    assert np.allclose(made, np.stack(sums), atol=1e-6)
    assert slope[:, 0].tolist() == [2, 1, 1, 1, 1, 1]


def test_empty_sequences_are_passed_over() -> None:
    x = fed(-1, 2, lod_level=1)
    rnn = L.DynamicRNN()
    with rnn.block():
        part = rnn.step_input(x)
        rnn.output(part * part, part * 2.0)
    used, _ = rnn()
    (grad,) = fluid.gradients(L.reduce_sum(used), x)
    rows = values(4, 2)
    (slope,) = run([grad], x=fluid.create_lod_tensor(rows, [[0, 3, 0, 1]], fluid.CPUPlace()))
    assert np.allclose(slope, 2 * rows)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_rnn_stops_where_sequences_end(is_reverse: bool) -> None:
    x = fed(-1, 4, 3)
    lengths = fluid.data("n", [-1], "int64")
    cell = L.GRUCell(2)
    out, state = L.rnn(cell, x, sequence_length=lengths, is_reverse=is_reverse)
    made, last = run([out, state], x=values(3, 4, 3), n=np.array([4, 1, 2]))
    assert made.shape == (3, 4, 2)
    where = [0, 0, 0] if is_reverse else [3, 0, 1]
    assert np.allclose(last, made[np.arange(3), where], atol=1e-6)


def test_a_memory_starts_with_what_is_computed_within_the_step() -> None:
    """`rnn.memory(init=states[1])`, as scripts of Fluid 1.5 have it, is computed before it."""
    feed = {"x": np.linspace(-1, 1, 30, dtype="f4").reshape(5, 2, 3)}
    feed["h"] = np.linspace(0, 2, 12, dtype="f4").reshape(2, 2, 3)
    found = []
    for within in (False, True):
        main, startup = fluid.Program(), fluid.Program()
        startup.random_seed = 3
        with fluid.program_guard(main, startup), fluid.unique_name.guard():
            x, h = fluid.data("x", [5, 2, 3]), fluid.data("h", [2, 2, 3])
            h.stop_gradient = False
            first = None if within else h[1]
            rnn = fluid.layers.StaticRNN()
            with rnn.step():
                word = rnn.step_input(x)
                if within:
                    with pytest.raises(ValueError, match="depends on x of the step"):
                        rnn.memory(init=fluid.layers.scale(word, 2.0))
                before = rnn.memory(init=h[1] if within else first)
                new = fluid.layers.fc(fluid.layers.concat([word, before], 1), 3, act="tanh")
                rnn.update_memory(before, new)
                rnn.step_output(new)
            loss = fluid.layers.reduce_mean(rnn())
            wanted = [loss, *fluid.gradients(loss, [h])]
        executor = fluid.Executor(fluid.CPUPlace())
        with fluid.scope_guard(fluid.Scope()):
            executor.run(startup)
            found.append(executor.run(main, feed=feed, fetch_list=wanted))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.abs(found[0][1]).max() > 0


def _differentiated_once() -> Any:
    """A loss of a StaticRNN over `x` (5, 2, 3) from `begin` (2, 3), whose gradient is appended."""
    x, begin = fluid.data("x", [5, 2, 3]), fluid.data("begin", [2, 3])
    begin.stop_gradient = False
    rnn = L.StaticRNN()
    with rnn.step():
        word, memory = rnn.step_input(x), rnn.memory(init=begin)
        new = L.fc(L.concat([word, memory], 1), 3, act="tanh")
        rnn.update_memory(memory, new)
        rnn.step_output(new)
    total = L.reduce_mean(rnn())
    fluid.gradients(total, [begin])
    return total


def test_a_loop_that_is_differentiated_twice_is_an_error() -> None:
    """Each of its rounds is kept once, so the second gradient would find nothing, and be 0."""
    total = _differentiated_once()
    fluid.optimizer.SGD(0.1).minimize(total)
    executor = fluid.Executor()
    executor.run(fluid.default_startup_program())
    given = {"x": np.ones((5, 2, 3), "float32"), "begin": np.ones((2, 3), "float32")}
    with pytest.raises(EnforceNotMet, match="recurrent is differentiated 2 times") as caught:
        executor.run(feed=given, fetch_list=[total])
    assert "test_recurrent_networks.py" in str(caught.value)


def test_blocks_that_nothing_runs_do_not_count() -> None:
    """Gradients that were taken away leave their blocks; new ones are the loop's only ones."""

    def rounds(body: Callable[[Any], Any], value: Any) -> Any:
        start, end = (L.fill_constant([1], "int64", number) for number in (0, 3))
        step = lambda i, now: [i + 1, body(now)]  # noqa: E731
        return L.while_loop(lambda i, now: i < end, step, [start, value * 2.0])[1]

    x = fluid.data("x", [2])
    x.stop_gradient = False
    total = L.reduce_sum(rounds(lambda outer: rounds(lambda inner: inner * 2.0, outer), x))
    fluid.gradients(total, [x])
    Editor(total.block).keep(lambda op: not op.role & OpRole.BACKWARD)
    for name in [name for name in total.block.vars if "@GRAD" in name]:
        del total.block.vars[name]
    (slope,) = fluid.gradients(total, [x])
    (found,) = fluid.Executor().run(feed={"x": np.ones(2, "float32")}, fetch_list=[slope])
    np.testing.assert_array_equal(found, [8192.0, 8192.0])


def test_names_of_operators_are_not_those_that_loops_use() -> None:
    """A plan's loop counts by Python's `range`, also beside an operator of that name."""
    x = fluid.data("x", [3, 2, 1])
    numbers = L.range(0, 3, 1, "float32")
    rnn = L.StaticRNN()
    with rnn.step():
        word, memory = (
            rnn.step_input(x),
            rnn.memory(shape=[2], batch_ref=numbers, ref_batch_dim_idx=0),
        )
        new = L.elementwise_add(memory, word)
        rnn.update_memory(memory, new)
        rnn.step_output(new)
    given = {"x": np.ones((3, 2, 1), "float32")}
    found = fluid.Executor().run(feed=given, fetch_list=[rnn(), numbers])
    np.testing.assert_array_equal(found[0][:, 1, 0], [1, 2, 3])
    np.testing.assert_array_equal(found[1], [0, 1, 2])


def test_a_parameter_as_large_as_the_state_is_trained_by_all_steps() -> None:
    """Its gradient of a step is the very tensor that goes on to the step before."""
    start, given = values(4, 3, seed=4), values(5, 4, 3)
    x, rnn = fed(5, 4, 3), L.StaticRNN()
    own = L.create_parameter(
        [4, 3],
        "float32",
        name="own",
        default_initializer=fluid.initializer.NumpyArrayInitializer(start),
    )
    with rnn.step():
        part = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 3], batch_ref=part)
        after = L.elementwise_add(L.elementwise_add(before, own), part)
        rnn.update_memory(before, after)
        rnn.step_output(after)
    (slope,) = run(fluid.gradients(loss(rnn()), [own]), x=given)
    weight, state = torch.tensor(start, requires_grad=True), torch.zeros(4, 3)
    made = []
    for step in torch.tensor(given):
        state = state + weight + step
        made.append(state)
    torch.stack(made).square().sum().backward()
    np.testing.assert_allclose(slope, weight.grad, rtol=1e-5)
