"""The backward pass through blocks: which gradients enter, which come out, what is left alone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from refluid import fluid
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from tests.fluid.once import constant, fed, loss, own_programs

L = fluid.layers


@pytest.fixture(autouse=True)
def _own_programs() -> Iterator[None]:
    with own_programs():
        yield


def _operator(type: str) -> Operator:
    blocks = fluid.default_main_program().blocks
    (found,) = [op for block in blocks for op in block.ops if op.type == type]
    return found


def _inner(op: Operator) -> Block:
    block: Block = op.attr("sub_block")
    return block


def _loop(body: Any, *carried: fluid.Variable) -> Any:
    i, limit = constant(0, "int64"), constant(3, "int64")

    def step(i: fluid.Variable, *values: fluid.Variable) -> list[fluid.Variable]:
        made = body(*values)
        return [i + 1, *(made if isinstance(made, tuple) else (made,))]

    return L.while_loop(lambda i, *_: L.less_than(i, limit), step, [i, *carried])[1:]


def test_only_what_matters_flows_from_round_to_round() -> None:
    x = fed(2)
    used, unused = _loop(lambda a, b: (a * x, b + 1.0), L.assign(x), constant(0))
    fluid.gradients(loss(used), x)
    grad = _operator("while_grad")
    assert grad.attr("original_output_grad") == [used.name + "@GRAD"]
    made = dict(zip(grad.input("X"), grad.output("X@GRAD"), strict=True))
    assert made[used.name] == used.name + "@GRAD"
    assert made[unused.name] == "@EMPTY@"
    assert "x@GRAD" in made["x"]


def test_gradient_block_belongs_to_its_forward_block() -> None:
    x = fed(2)
    (out,) = _loop(lambda a: a * x, L.assign(x))
    fluid.gradients(loss(out), x)
    forward, backward = (_inner(_operator(type)) for type in ("while", "while_grad"))
    assert backward.forward_block_idx == forward.idx and backward.parent_idx == 0
    assert forward.backward_block_idx == backward.idx
    assert fluid.default_main_program().current_block_idx == 0


def test_blocks_off_the_way_get_no_gradient_block() -> None:
    x = fed(2)
    _loop(lambda a: a * x, L.assign(x))
    fluid.gradients(loss(L.scale(x, 2.0)), x)
    assert all(not block.forward_block_idx for block in fluid.default_main_program().blocks)


def test_a_frozen_parameter_gets_no_gradient_in_a_loop() -> None:
    x = fed(2)
    frozen = L.create_parameter([2], "float32", name="frozen")
    frozen.stop_gradient = True
    (out,) = _loop(lambda a: a * frozen + x, L.assign(x))
    fluid.gradients(loss(out), x)
    grad = _operator("while_grad")
    made = dict(zip(grad.input("X"), grad.output("X@GRAD"), strict=True))
    assert made["frozen"] == "@EMPTY@"
    outputs = [name for op in _inner(grad).ops for name in op.output_arg_names]
    assert not any("frozen@GRAD" in name for name in outputs)


def test_counters_are_taken_back() -> None:
    x, i = fed(2), constant(0, "int64")
    array = L.array_write(x, i)
    L.increment(i)
    L.array_write(L.scale(x, 2.0), i, array)
    fluid.gradients(loss(L.array_read(array, constant(0, "int64"))), x)
    steps = [op for op in fluid.default_main_program().global_block().ops if op.type == "increment"]
    assert [op.attr("step") for op in steps] == [1.0, -1.0]


def test_unused_outputs_of_a_recurrence_are_read_but_not_made() -> None:
    x = fed(3, 2, 2)
    rnn = L.StaticRNN()
    with rnn.step():
        part = rnn.step_input(x)
        before = rnn.memory(shape=[-1, 2], batch_ref=part)
        rnn.update_memory(before, part + before)
        rnn.output(part * before, L.scale(part, 2.0))
    used, unused = rnn()
    fluid.gradients(loss(used), x)
    grad = _operator("recurrent_grad")
    assert grad.input("outputs@GRAD") == [used.name + "@GRAD", unused.name + "@GRAD"]
    assert grad.input("step_scopes@GRAD") == grad.input("step_scopes")
    assert unused.name + "@GRAD" not in fluid.default_main_program().global_block().vars


def test_stopped_outputs_are_zeros() -> None:
    x = fed(3, 2, 2)
    rnn = L.StaticRNN()
    with rnn.step():
        part = rnn.step_input(x)
        rnn.output(part * part, L.scale(part, 2.0))
    used, stopped = rnn()
    stopped.stop_gradient = True
    fluid.gradients(loss(used), x)
    assert _operator("fill_zeros_like").output("Out") == [stopped.name + "@GRAD"]


def test_a_branch_of_constants_leaves_no_gradient_operator() -> None:
    x = fed(1)
    made = L.cond(x > constant(0), lambda: x * 2.0, lambda: constant(3))
    fluid.gradients(made, x)
    assert _operator("conditional_block_grad").output("Input@GRAD") == ["x@GRAD"]
