"""Loops and branches compute what Python would, and their gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from tests.fluid.once import constant, fed, loss, own_programs, run, values

L = fluid.layers


@pytest.fixture(autouse=True)
def _own_programs() -> Iterator[None]:
    with own_programs():
        yield


# -- loops ---------------------------------------------------------------------------


def test_while_loop_counts() -> None:
    i, total = constant(0, "int64"), constant(0)
    limit = constant(5, "int64")

    def body(i: fluid.Variable, total: fluid.Variable) -> list[fluid.Variable]:
        return [i + 1, total + L.cast(i, "float32")]

    i, total = L.while_loop(lambda i, total: L.less_than(i, limit), body, [i, total])
    assert [float(one[0]) for one in run([i, total])] == [5, 10]


def test_while_loop_carries_structures() -> None:
    state = {"i": constant(0, "int64"), "pair": (constant(1), constant(2))}

    def body(state: Any) -> Any:
        one, other = state["pair"]
        return [{"i": state["i"] + 1, "pair": (other, one + other)}]

    (made,) = L.while_loop(
        lambda state: L.less_than(state["i"], constant(4, "int64")), body, [state]
    )
    assert [float(one[0]) for one in run(list(made["pair"]))] == [8, 13]


def test_gradient_of_a_loop_variable() -> None:
    x = fed(3)
    i, limit = constant(0, "int64"), constant(4, "int64")
    power = L.assign(x)

    def body(i: fluid.Variable, power: fluid.Variable) -> list[fluid.Variable]:
        return [i + 1, L.elementwise_mul(power, x)]

    _, power = L.while_loop(lambda i, power: L.less_than(i, limit), body, [i, power])
    (grad,) = fluid.gradients(L.reduce_sum(power), x)
    value = values(3)
    made, slope = run([power, grad], x=value)
    assert np.allclose(made, value**5, rtol=1e-5)
    assert np.allclose(slope, 5 * value**4, rtol=1e-4)


def test_gradient_through_arrays_of_a_loop() -> None:
    x = fed(4, 2)
    i, limit = constant(0, "int64"), constant(4, "int64")
    i.stop_gradient = False
    steps, outs = L.create_array("float32"), L.create_array("float32")
    for number in range(4):
        L.array_write(x[number], constant(number, "int64"), steps)
    going = L.less_than(i, limit)
    with L.While(going).block():
        L.array_write(L.scale(L.array_read(steps, i), 3.0), i, outs)
        L.increment(i)
        L.less_than(i, limit, cond=going)
    total, _ = L.tensor_array_to_tensor(outs, axis=0, use_stack=True)
    (grad,) = fluid.gradients(loss(total), x)
    value = values(4, 2)
    made, slope = run([total, grad], x=value)
    assert np.allclose(made, 3 * value, rtol=1e-5)
    assert np.allclose(slope, 18 * value, rtol=1e-4)


def _rounds(count: int, body: Callable[..., Any], start: fluid.Variable) -> fluid.Variable:
    """`body(i, value)` applied `count` times."""
    i, limit = constant(0, "int64"), constant(count, "int64")
    made: fluid.Variable = L.while_loop(
        lambda i, value: L.less_than(i, limit),
        lambda i, value: [i + 1, body(i, value)],
        [i, L.assign(start)],
    )[1]
    return made


def test_gradient_of_a_loop_in_a_loop() -> None:
    x = fed(2)
    out = _rounds(3, lambda _, a: _rounds(3, lambda _, b: b * x, a), x)
    (grad,) = fluid.gradients(L.reduce_sum(out), x)
    value = values(2) + 1.5
    made, slope = run([out, grad], x=value)
    assert np.allclose(made, value**10, rtol=1e-4)
    assert np.allclose(slope, 10 * value**9, rtol=1e-4)


def test_gradient_of_a_branch_in_a_loop() -> None:
    x = fed(1)

    def body(i: fluid.Variable, a: fluid.Variable) -> Any:
        return L.cond(L.less_than(i, constant(2, "int64")), lambda: a * x, lambda: a + x)

    out = _rounds(4, body, x)
    (grad,) = fluid.gradients(out, x)
    made, slope = run([out, grad], x=np.array([1.5], "float32"))
    assert np.allclose([made[0], slope[0]], [1.5**3 + 3, 3 * 1.5**2 + 2])


@pytest.mark.parametrize(("value", "wanted"), [(2.0, [16, 32]), (-1.0, [-5, 5])])
def test_gradient_of_a_loop_in_a_branch(value: float, wanted: list[float]) -> None:
    x = fed(1)
    out = L.cond(x > constant(0), lambda: _rounds(3, lambda _, a: a * x, x), lambda: x * 5.0)
    (grad,) = fluid.gradients(out, x)
    found = run([out, grad], x=np.array([value], "float32"))
    assert [one[0] for one in found] == wanted


def test_a_loop_of_no_rounds_changes_nothing() -> None:
    x = fed(2)
    out = _rounds(0, lambda _, a: a * x, x)
    (grad,) = fluid.gradients(L.reduce_sum(out), x)
    made, slope = run([out, grad], x=values(2))
    assert np.array_equal(made, values(2)) and slope.tolist() == [1, 1]


def test_length_of_an_array() -> None:
    array = L.array_write(constant(1), constant(2, "int64"))
    assert run([L.array_length(array)])[0].tolist() == [3]


# -- branches --------------------------------------------------------------------------


@pytest.mark.parametrize("value", [-2.0, 2.0])
def test_cond_and_its_gradient(value: float) -> None:
    x = fed(1)
    made = L.cond(x > constant(0), lambda: x * 3.0, lambda: L.square(x))
    (grad,) = fluid.gradients(made, x)
    out, slope = run([made, grad], x=np.array([value], "float32"))
    assert out[0] == (3 * value if value > 0 else value**2)
    assert slope[0] == (3 if value > 0 else 2 * value)


@pytest.mark.parametrize("value", [-2.0, 2.0])
def test_gradient_of_one_of_two_results(value: float) -> None:
    x = fed(1)
    used, _ = L.cond(x > constant(0), lambda: (x * 2.0, x * 3.0), lambda: (x * 4.0, x * 5.0))
    (grad,) = fluid.gradients(used, x)
    assert run([grad], x=np.array([value], "float32"))[0][0] == (2 if value > 0 else 4)


def test_branches_with_optimizers_of_their_own() -> None:
    x, which = fed(-1, 3), fluid.data("which", [1], "int32")

    def train(optimizer: Any) -> fluid.Variable:
        out = L.mean(L.square(L.fc(x, 1, param_attr="w", bias_attr=False) - 1.0))
        optimizer.minimize(out)
        return out

    out = L.switch_case(
        which,
        [
            lambda: train(fluid.optimizer.SGD(0.1)),
            lambda: train(fluid.optimizer.Adam(0.1)),
        ],
    )
    exe = fluid.Executor(fluid.CPUPlace())
    exe.run(fluid.default_startup_program())
    losses = [
        exe.run(feed={"x": values(8, 3), "which": np.array([step % 2], "int32")}, fetch_list=[out])
        for step in range(6)
    ]
    assert losses[-1][0] < losses[0][0]


@pytest.mark.parametrize(("value", "wanted"), [(-1, 10), (0, 20), (7, 30)])
def test_case_takes_the_first_that_holds(value: float, wanted: float) -> None:
    x = fed(1)
    pairs = [(x < constant(0), lambda: constant(10)), (x < constant(5), lambda: constant(20))]
    made = L.case(pairs, default=lambda: constant(30))
    assert run([made], x=np.array([value], "float32"))[0][0] == wanted


@pytest.mark.parametrize("default", [True, False])
@pytest.mark.parametrize("index", [1, 2, 9])
def test_switch_case_by_number(index: int, default: bool) -> None:
    functions: dict[int, Callable[[], Any]] = {
        2: lambda: constant(20),
        1: lambda: constant(10),
        3: lambda: constant(30),
    }
    given = (lambda: constant(40)) if default else None
    made = L.switch_case(constant(index, "int32"), functions, given)
    wanted = {1: 10, 2: 20}.get(index, 40 if default else 30)
    assert run([made])[0][0] == wanted


def test_ifelse_and_its_gradient() -> None:
    x = fed(4, 1)
    either = L.IfElse(L.greater_than(x, L.zeros([4, 1], "float32")))
    with either.true_block():
        either.output(L.scale(either.input(x), 2.0))
    with either.false_block():
        either.output(L.square(either.input(x)))
    (out,) = either()
    (grad,) = fluid.gradients(out, x)
    for value in (values(4, 1), np.abs(values(4, 1))):
        made, slope = run([out, grad], x=value)
        assert np.allclose(made, np.where(value > 0, 2 * value, value**2))
        assert np.allclose(slope, np.where(value > 0, 2, 2 * value))


# -- mistakes -----------------------------------------------------------------------------


def _number() -> fluid.Variable:
    return constant(1)


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
