"""Loops, branches and recurrent networks compute what Python would, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch

from refluid import fluid
from refluid.core import names

L = fluid.layers
Array = np.ndarray[Any, Any]


@pytest.fixture(autouse=True)
def _own_programs() -> Iterator[None]:
    with (
        names.guard(),
        fluid.program_guard(fluid.Program(), fluid.Program()),
        fluid.scope_guard(fluid.core.Scope()),
    ):
        yield


def _run(fetch: Any, **feed: Any) -> list[Array]:
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    found = exe.run(feed=feed, fetch_list=fetch, return_numpy=False)
    return [np.array(one) for one in found]


def _x(*shape: int, name: str = "x", lod_level: int = 0) -> fluid.Variable:
    var = fluid.data(name, list(shape), "float32", lod_level=lod_level)
    var.stop_gradient = False
    return var


def _constant(value: float, dtype: str = "float32") -> fluid.Variable:
    return L.fill_constant([1], dtype, value)


def _loss(var: fluid.Variable) -> fluid.Variable:
    return L.reduce_sum(L.square(var))


def _values(*shape: int, seed: int = 0) -> Array:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


# -- loops ---------------------------------------------------------------------------


def test_while_loop_counts() -> None:
    i, total = _constant(0, "int64"), _constant(0)
    limit = _constant(5, "int64")

    def body(i: fluid.Variable, total: fluid.Variable) -> list[fluid.Variable]:
        return [i + 1, total + L.cast(i, "float32")]

    i, total = L.while_loop(lambda i, total: L.less_than(i, limit), body, [i, total])
    assert [float(one[0]) for one in _run([i, total])] == [5, 10]


def test_while_loop_carries_structures() -> None:
    state = {"i": _constant(0, "int64"), "pair": (_constant(1), _constant(2))}

    def body(state: Any) -> Any:
        one, other = state["pair"]
        return [{"i": state["i"] + 1, "pair": (other, one + other)}]

    (made,) = L.while_loop(
        lambda state: L.less_than(state["i"], _constant(4, "int64")), body, [state]
    )
    assert [float(one[0]) for one in _run(list(made["pair"]))] == [8, 13]


def test_gradient_of_a_loop_variable() -> None:
    x = _x(3)
    i, limit = _constant(0, "int64"), _constant(4, "int64")
    power = L.assign(x)

    def body(i: fluid.Variable, power: fluid.Variable) -> list[fluid.Variable]:
        return [i + 1, L.elementwise_mul(power, x)]

    _, power = L.while_loop(lambda i, power: L.less_than(i, limit), body, [i, power])
    (grad,) = fluid.gradients(L.reduce_sum(power), x)
    value = _values(3)
    made, slope = _run([power, grad], x=value)
    assert np.allclose(made, value**5, rtol=1e-5)
    assert np.allclose(slope, 5 * value**4, rtol=1e-4)


def test_gradient_through_arrays_of_a_loop() -> None:
    x = _x(4, 2)
    i, limit = _constant(0, "int64"), _constant(4, "int64")
    i.stop_gradient = False
    steps, outs = L.create_array("float32"), L.create_array("float32")
    for number in range(4):
        L.array_write(x[number], _constant(number, "int64"), steps)
    going = L.less_than(i, limit)
    with L.While(going).block():
        L.array_write(L.scale(L.array_read(steps, i), 3.0), i, outs)
        L.increment(i)
        L.less_than(i, limit, cond=going)
    total, _ = L.tensor_array_to_tensor(outs, axis=0, use_stack=True)
    (grad,) = fluid.gradients(_loss(total), x)
    value = _values(4, 2)
    made, slope = _run([total, grad], x=value)
    assert np.allclose(made, 3 * value, rtol=1e-5)
    assert np.allclose(slope, 18 * value, rtol=1e-4)


def test_length_of_an_array() -> None:
    array = L.array_write(_constant(1), _constant(2, "int64"))
    assert _run([L.array_length(array)])[0].tolist() == [3]


# -- branches --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-2.0, 2.0])
def test_cond_and_its_gradient(value: float) -> None:
    x = _x(1)
    made = L.cond(x > _constant(0), lambda: x * 3.0, lambda: L.square(x))
    (grad,) = fluid.gradients(made, x)
    out, slope = _run([made, grad], x=np.array([value], "float32"))
    assert out[0] == (3 * value if value > 0 else value**2)
    assert slope[0] == (3 if value > 0 else 2 * value)


@pytest.mark.parametrize(("value", "wanted"), [(-1, 10), (0, 20), (7, 30)])
def test_case_takes_the_first_that_holds(value: float, wanted: float) -> None:
    x = _x(1)
    pairs = [(x < _constant(0), lambda: _constant(10)), (x < _constant(5), lambda: _constant(20))]
    made = L.case(pairs, default=lambda: _constant(30))
    assert _run([made], x=np.array([value], "float32"))[0][0] == wanted


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("index", [1, 2, 9])
def test_switch_case_by_number(index: int, default: bool) -> None:
    functions: dict[int, Callable[[], Any]] = {
        2: lambda: _constant(20),
        1: lambda: _constant(10),
        3: lambda: _constant(30),
    }
    given = (lambda: _constant(40)) if default else None
    made = L.switch_case(_constant(index, "int32"), functions, given)
    wanted = {1: 10, 2: 20}.get(index, 40 if default else 30)
    assert _run([made])[0][0] == wanted


def test_ifelse_and_its_gradient() -> None:
    x = _x(4, 1)
    either = L.IfElse(L.greater_than(x, L.zeros([4, 1], "float32")))
    with either.true_block():
        either.output(L.scale(either.input(x), 2.0))
    with either.false_block():
        either.output(L.square(either.input(x)))
    (out,) = either()
    (grad,) = fluid.gradients(out, x)
    for value in (_values(4, 1), np.abs(_values(4, 1))):
        made, slope = _run([out, grad], x=value)
        assert np.allclose(made, np.where(value > 0, 2 * value, value**2))
        assert np.allclose(slope, np.where(value > 0, 2, 2 * value))


# -- recurrent networks ------------------------------------------------------------------


def _weights() -> tuple[Array, Array]:
    """Values of `w` (3, 2) and `u` (2, 2)."""
    return _values(3, 2, seed=1), _values(2, 2, seed=2)


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
    x = _x(5, 4, 3)
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
    grads = fluid.gradients(_loss(out), [x, block.var("w"), block.var("u")])
    value = _values(5, 4, 3)
    made, *slopes = _run([out, *grads], x=value)
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
    x, init = _x(-1, 3, lod_level=1), _x(-1, 2, name="init")
    rnn = L.DynamicRNN()
    with rnn.block():
        part = rnn.step_input(x)
        before = rnn.memory(init=init, need_reorder=True)
        hidden = _cell(part, before)
        rnn.update_memory(before, hidden)
        rnn.output(hidden)
    out = rnn()
    block = fluid.default_main_program().global_block()
    grads = fluid.gradients(_loss(out), [x, init, block.var("w"), block.var("u")])
    rows, first = _values(7, 3), _values(3, 2, seed=5)
    fed = fluid.create_lod_tensor(rows, [lengths], fluid.CPUPlace())
    made, *slopes = _run([out, *grads], x=fed, init=first)
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
    x = _x(-1, 2, lod_level=1)
    static = _x(-1, 2, name="s", lod_level=1)
    rnn = L.DynamicRNN()
    with rnn.block():
        part = rnn.step_input(x)
        whole = rnn.static_input(static)
        rnn.output(L.sequence_pool(whole, "sum") * part)
    out = rnn()
    (grad,) = fluid.gradients(L.reduce_sum(out), static)
    rows, others = _values(3, 2), _values(4, 2, seed=3)
    place = fluid.CPUPlace()
    made, slope = _run(
        [out, grad],
        x=fluid.create_lod_tensor(rows, [[1, 2]], place),
        s=fluid.create_lod_tensor(others, [[3, 1]], place),
    )
    sums = [others[:3].sum(0), others[3:].sum(0)]
    assert np.allclose(made, rows * np.stack([sums[0], sums[1], sums[1]]), atol=1e-6)
    wanted = np.stack([rows[0]] * 3 + [rows[1] + rows[2]])
    assert np.allclose(slope, wanted, atol=1e-6)


@pytest.mark.parametrize("is_reverse", [False, True])
def test_rnn_stops_where_sequences_end(is_reverse: bool) -> None:
    x = _x(-1, 4, 3)
    lengths = fluid.data("n", [-1], "int64")
    cell = L.GRUCell(2)
    out, state = L.rnn(cell, x, sequence_length=lengths, is_reverse=is_reverse)
    made, last = _run([out, state], x=_values(3, 4, 3), n=np.array([4, 1, 2]))
    assert made.shape == (3, 4, 2)
    where = [0, 0, 0] if is_reverse else [3, 0, 1]
    assert np.allclose(last, made[np.arange(3), where], atol=1e-6)


# -- decoders ---------------------------------------------------------------------------


def _embed(ids: fluid.Variable) -> fluid.Variable:
    return fluid.embedding(ids, [6, 3], param_attr=fluid.ParamAttr(name="words"))


def _score(out: fluid.Variable) -> fluid.Variable:
    attr = fluid.ParamAttr(name="scores")
    return L.fc(out, 6, num_flatten_dims=len(out.shape) - 1, param_attr=attr, bias_attr=False)


def _states(cell: Any) -> Any:
    return cell.get_initial_states(fluid.data("batch", [-1, 3]))


def test_decoder_trains_on_given_words() -> None:
    words = fluid.data("words_in", [-1, 4], "int64")
    lengths = fluid.data("n", [-1], "int64")
    cell = L.LSTMCell(3)
    helper = L.TrainingHelper(_embed(words), lengths)
    decoder = L.BasicDecoder(cell, helper, output_fn=_score)
    outputs, _, counted = L.dynamic_decode(decoder, inits=_states(cell), return_length=True)
    loss = L.reduce_mean(
        L.softmax_with_cross_entropy(outputs.cell_outputs, L.unsqueeze(words, [2]))
    )
    fluid.optimizer.SGD(1.0).minimize(loss)
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    feed = {
        "words_in": np.array([[1, 2, 3, 4], [2, 1, 0, 0]]),
        "n": np.array([4, 2]),
        "batch": _values(2, 3),
    }
    losses = [exe.run(feed=feed, fetch_list=[loss, counted]) for _ in range(5)]
    assert losses[-1][0] < losses[0][0]
    assert losses[0][1].tolist() == [4, 2]


@pytest.mark.parametrize("is_test", [False, True])
def test_greedy_decoding_is_beam_search_with_one_beam(is_test: bool) -> None:
    cell = L.GRUCell(3)
    start = L.fill_constant_batch_size_like(fluid.data("like", [-1, 1]), [-1], "int64", 0)
    helper = L.GreedyEmbeddingHelper(_embed, start, end_token=1)
    greedy, _ = L.dynamic_decode(
        L.BasicDecoder(cell, helper, output_fn=_score),
        inits=_states(cell),
        max_step_num=4,
        is_test=is_test,
    )
    search = L.BeamSearchDecoder(cell, 0, 1, 1, embedding_fn=_embed, output_fn=_score)
    found, _ = L.dynamic_decode(search, inits=_states(cell), max_step_num=4, is_test=is_test)
    one, other = _run(
        [greedy.sample_ids, found], like=np.zeros((2, 1), "float32"), batch=_values(2, 3)
    )
    assert one.shape[0] == 2 and 1 <= one.shape[1] <= 5
    assert np.array_equal(one, other[:, :, 0])


def test_beams_are_repeated_rows() -> None:
    x = _x(-1, 2)
    made = L.BeamSearchDecoder.tile_beam_merge_with_batch(x, 3)
    value = _values(2, 2)
    assert np.array_equal(_run([made], x=value)[0], value.repeat(3, 0))


# -- mistakes -----------------------------------------------------------------------------


def _number() -> fluid.Variable:
    return _constant(1)


MISTAKES: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: L.While(_number()), TypeError, "not bool"),
    (lambda: L.while_loop(1, _number, [_number()]), TypeError, "cond in while_loop"),  # type: ignore[arg-type]
    (lambda: L.while_loop(_number, _number, []), ValueError, "should not be empty"),
    (lambda: L.cond(_number(), 1), TypeError, "true_fn in cond must be callable"),  # type: ignore[arg-type]
    (lambda: L.cond(_number(), _number), ValueError, "Incompatible return values"),
    (lambda: L.case([]), TypeError, "list of pairs"),
    (lambda: L.switch_case(_number(), {}), TypeError, "not int"),
    (lambda: L.array_read(_number(), _number()), TypeError, "should be an array"),
    (lambda: L.StaticRNN().step_input(_number()), ValueError, "in rnn block"),
    (lambda: L.StaticRNN()(), ValueError, "after rnn block"),
    (lambda: L.DynamicRNN().output(_number()), ValueError, "inside rnn block"),
    (lambda: L.DynamicRNN()(), ValueError, "outside the rnn block"),
    (lambda: L.IfElse(_number()).input(_number()), ValueError, "must in true/false"),
    (lambda: L.IfElse(_number())(), ValueError, "Must invoke"),
    (lambda: fluid.contrib.InitState(), ValueError, "init_boot must be provided"),
]


@pytest.mark.parametrize(("make", "error", "message"), MISTAKES)
def test_mistakes(make: Callable[[], Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()
