"""Loops over time steps with their work batched: the same results, and what moves."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.engine import pipeline
from tests.passes.rewriting import passed

STEPS, BATCH, WIDTH = 5, 3, 4
NAME = "batch_time_steps"
Network = Callable[[Any], Any]


def of_cell(make: Callable[[int], Any]) -> Network:
    return lambda x: fluid.layers.rnn(make(WIDTH), x, time_major=True)[0]


def by_hand(step: Callable[[Any, Any], Any]) -> Network:
    """A StaticRNN whose state is what `step` makes of a time step and the state before."""

    def network(x: Any) -> Any:
        rnn = fluid.layers.StaticRNN()
        with rnn.step():
            now = rnn.step_input(x)
            before = rnn.memory(shape=[-1, WIDTH], batch_ref=now)
            after = step(now, before)
            rnn.update_memory(before, after)
            rnn.step_output(after)
        return rnn()

    return network


def both(now: Any, before: Any) -> Any:
    return fluid.layers.fc([now, before], WIDTH, act="tanh")


def first_then_state(now: Any, before: Any) -> Any:
    seen = fluid.layers.fc(now, WIDTH, act="sigmoid")
    return fluid.layers.tanh(fluid.layers.fc(seen, WIDTH) + fluid.layers.fc(before, WIDTH))


def used_twice(now: Any, before: Any) -> Any:
    """The step's input is also added as it is, so its gradient has two sources."""
    return fluid.layers.tanh(now + fluid.layers.fc(now, WIDTH) + fluid.layers.fc(before, WIDTH))


def one_weight(now: Any, before: Any) -> Any:
    """Input and state are multiplied by the same weight, whose gradient is a sum."""
    attr = fluid.ParamAttr(name="shared")
    terms = [fluid.layers.fc(one, WIDTH, param_attr=attr, bias_attr=False) for one in (now, before)]
    return fluid.layers.tanh(terms[0] + terms[1])


def read_twice(now: Any, before: Any) -> Any:
    """What is joined is used beside the product too."""
    joined = fluid.layers.concat([now, before], axis=1)
    added = fluid.layers.reduce_sum(joined, dim=1, keep_dim=True)
    return fluid.layers.tanh(fluid.layers.fc(joined, WIDTH) + added)


NETWORKS = {
    "LSTM cell": of_cell(fluid.layers.LSTMCell),
    "GRU cell": of_cell(fluid.layers.GRUCell),
    "a layer of both": by_hand(both),
    "layers before the state": by_hand(first_then_state),
    "an input used twice": by_hand(used_twice),
    "a shared weight": by_hand(one_weight),
    "joined and read twice": by_hand(read_twice),
}


def build(network: Network, *, train: bool = True) -> tuple[Any, Any, list[str]]:
    """Main and startup program, and what is fetched: the loss and, in training, all gradients."""
    main, startup = fluid.Program(), fluid.Program()
    main.random_seed = startup.random_seed = 3
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [STEPS, BATCH, WIDTH])
        x.stop_gradient = False
        made = network(x)
        loss = fluid.layers.mean(made * made)
        fetches = [loss.name]
        if train:
            fluid.optimizer.SGD(0.1).minimize(loss)
            parameters = [parameter.name for parameter in main.all_parameters()]
            fetches += [f"{name}@GRAD" for name in ("x", *parameters)]
    return main, startup, fetches


def results(programs: tuple[Any, Any, list[str]]) -> list[Any]:
    main, startup, fetches = programs
    exe, scope = fluid.Executor(), fluid.Scope()
    exe.run(startup, scope=scope)
    feed = {"x": np.random.default_rng(0).standard_normal((STEPS, BATCH, WIDTH), "float32")}
    found: list[Any] = []
    for _ in range(2):
        found = exe.run(main, feed, fetches, scope=scope)
    return found


@pytest.mark.parametrize("train", [True, False], ids=["training", "inference"])
@pytest.mark.parametrize("network", NETWORKS)
def test_results_are_those_of_the_loop_as_written(
    network: str, train: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = build(NETWORKS[network], train=train)
    batched = results(programs)
    others = tuple(one for one in pipeline.FUSING if one.name != NAME)
    monkeypatch.setattr(pipeline, "FUSING", others)
    for name, mine, other in zip(programs[2], batched, results(programs), strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-7, err_msg=name)


def rewritten(network: str, *, train: bool = True) -> Any:
    main, _, fetches = build(NETWORKS[network], train=train)
    return passed(main, NAME, kept=fetches).program


def types(program: Any, place: int) -> list[str]:
    return [op.type for op in program.blocks[place].ops]


def test_a_cell_keeps_only_the_product_with_the_state() -> None:
    program = rewritten("LSTM cell")
    assert types(program, 1).count("mul") == 1
    assert not {"concat", "matmul"} & set(types(program, 1))
    (inside,) = [op for op in program.blocks[2].ops if op.type == "mul_grad"]
    assert inside.output("Y@GRAD") == ["@EMPTY@"]
    assert types(program, 0).count("mul") == 1
    assert types(program, 0).count("mul_grad") == 2


def test_layers_without_the_state_leave_the_loop_forward_and_backward() -> None:
    program = rewritten("layers before the state")
    assert types(program, 1).count("mul") == 1
    assert "sigmoid" not in types(program, 1)
    assert "sigmoid_grad" not in types(program, 2)
    assert types(program, 0).count("sigmoid_grad") == 1


def test_the_gradient_of_a_shared_weight_is_a_sum_after_the_loop() -> None:
    program = rewritten("a shared weight")
    inside = [op for op in program.blocks[2].ops if op.type == "mul_grad"]
    assert {*inside[0].output("Y@GRAD")} == {"@EMPTY@"}
    assert types(program, 0).count("mul_grad") == 2


def test_what_is_joined_and_read_twice_is_not_split() -> None:
    assert "mul" not in types(rewritten("joined and read twice"), 0)


def test_without_gradients_the_loop_is_batched_too() -> None:
    assert types(rewritten("a layer of both", train=False), 0).count("mul") == 1
