"""append_backward and gradients on small networks: results, options and mistakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import refluid.ops  # noqa: F401
from refluid.autodiff import append_backward, gradients
from refluid.core import names
from refluid.core.dtypes import VarType
from refluid.core.errors import OperatorNotImplemented
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.ir.variable import Variable
from refluid.ops.registry import GradOp


@pytest.fixture(autouse=True)
def _fresh_names() -> Iterator[None]:
    with names.guard():
        yield


def _apply(block: Block, type: str, attrs: Any = None, **inputs: Any) -> Variable:
    out = block.create_var(name=names.generate(type), dtype="float32")
    block.append_op(type=type, inputs=inputs, outputs={"Out": out}, attrs=attrs)
    return out


def _network() -> tuple[Program, Variable, Variable]:
    """loss = mean(relu(x w) w2); returns program, x and loss."""
    program = Program()
    block = program.global_block()
    x = block.create_var(name="x", shape=[-1, 3], dtype="float32", stop_gradient=True)
    w = block.create_parameter(name="w", shape=[3, 4], dtype="float32")
    w2 = block.create_parameter(name="w2", shape=[4, 1], dtype="float32")
    hidden = _apply(block, "relu", X=_apply(block, "mul", X=x, Y=w))
    return program, x, _apply(block, "mean", X=_apply(block, "mul", X=hidden, Y=w2))


def _types(program: Program) -> list[str]:
    return [op.type for op in program.global_block().ops]


def test_returns_parameters_in_order_of_creation_with_gradients_of_their_shape() -> None:
    program, _, loss = _network()
    pairs = append_backward(loss)
    assert [(p.name, g.name, g.shape) for p, g in pairs] == [
        ("w", "w@GRAD", (3, 4)),
        ("w2", "w2@GRAD", (4, 1)),
    ]
    assert _types(program)[4:] == [
        "fill_constant",
        "mean_grad",
        "mul_grad",
        "relu_grad",
        "mul_grad",
    ]
    last = program.global_block().ops[-1]
    assert last.output("X@GRAD") == [] and last.attr("op_role_var") == ["w", "w@GRAD"]
    assert program.global_block().ops[3].attr("op_role") == 256


def test_no_grad_set_prunes_what_leads_only_there() -> None:
    program, _, loss = _network()
    pairs = append_backward(loss, no_grad_set={"relu_0"})
    assert [p.name for p, _ in pairs] == ["w2"]
    assert _types(program)[-1] == "mul_grad" and len(_types(program)) == 7


def test_parameter_list_says_what_is_returned_and_marked() -> None:
    program, _, loss = _network()
    assert [p.name for p, _ in append_backward(loss, parameter_list=["w2"])] == ["w2"]
    assert program.global_block().ops[-1].attr("op_role_var") == []


def test_frozen_parameter_gets_no_gradient() -> None:
    program, _, loss = _network()
    program.global_block().var("w").stop_gradient = True
    assert [p.name for p, _ in append_backward(loss)] == ["w2"]


def test_gradients_of_a_variable_used_twice_are_summed_before_the_next_reader() -> None:
    program, _, _ = _network()
    block = program.global_block()
    square = _apply(block, "elementwise_mul", X=block.var("relu_0"), Y=block.var("relu_0"))
    loss = _apply(block, "mean", X=square)
    append_backward(loss)
    (total,) = [op for op in block.ops if op.type == "sum"]
    assert total.input("X") == [f"relu_0@GRAD@RENAME@block0@{i}" for i in range(2)]
    assert block.ops[total.idx + 1].type == "relu_grad"


def test_callbacks_see_every_operator_and_may_append_more() -> None:
    program, _, loss = _network()
    seen: list[str] = []

    def clip(block: Block, context: dict[str, Any]) -> None:
        op = context["__current_op_desc__"]
        seen.append(op.type)
        if "relu_0@GRAD" in op.output_arg_names:
            assert context["relu_0@GRAD"] == "relu_0"
            _apply(block, "relu", X=block.var("relu_0@GRAD"))

    append_backward(loss, callbacks=[clip])
    assert seen == ["fill_constant", "mean_grad", "mul_grad", "relu_grad", "mul_grad"]
    assert _types(program)[7:9] == ["relu", "relu_grad"]
    assert program.global_block().ops[7].attr("op_role") == 1


def test_callbacks_are_given_one_mapping_for_all_operators() -> None:
    """One for each would take, of long programs, most of the time of a backward pass."""
    _, _, loss = _network()
    contexts: list[dict[str, Any]] = []
    append_backward(loss, callbacks=[lambda block, context: contexts.append(context)])
    assert len(contexts) == 5 and all(one is contexts[0] for one in contexts)


def test_sparse_parameter_gradient_is_selected_rows() -> None:
    program, _, loss = _network()

    def sparse(op: Any) -> list[GradOp]:
        return [GradOp("g", {"Out@GRAD": [op.output("Out")[0] + "@GRAD"]}, _inputs(op), _SPARSE)]

    def _inputs(op: Any) -> dict[str, list[str]]:
        return {slot + "@GRAD": [name + "@GRAD" for name in op.input(slot)] for slot in op.inputs}

    _SPARSE = {"is_sparse": True}
    pairs = append_backward(loss, make_gradients=sparse)
    assert {g.type for _, g in pairs} == {VarType.SELECTED_ROWS}
    assert program.global_block().var("relu_0@GRAD").type == VarType.LOD_TENSOR


def test_sub_blocks_matter_only_on_the_way_to_the_loss() -> None:
    program, _, loss = _network()
    block = program.global_block()
    inner = program.create_block()
    program.rollback()
    _append_raw(block, "conditional_block", "x", "rate", {"sub_block": inner})
    append_backward(loss)

    _append_raw(block, "conditional_block_infer", "relu_0", "late", {"sub_block": inner})
    late = block.create_var(name="late", shape=[1], dtype="float32")
    with pytest.raises(OperatorNotImplemented, match="conditional_block_infer"):
        append_backward(late)


def _append_raw(block: Block, type: str, source: str, target: str, attrs: Any) -> None:
    from refluid.ir.operator import Operator

    Editor(block).append(Operator(block, type, {"Input": source}, {"Out": target}, attrs))


def test_gradients_by_an_input() -> None:
    program, x, loss = _network()
    x.stop_gradient = False
    (found,) = gradients([loss], x)
    assert found is not None and (found.name, found.shape) == ("x@GRAD", (-1, 3))
    assert _types(program)[4:6] == ["shape", "fill_constant"]


def test_gradients_are_none_without_influence_or_where_stopped() -> None:
    program, x, loss = _network()
    other = program.global_block().create_var(name="o", shape=[1], dtype="float32")
    assert gradients(loss, [x, other]) == [None, None]


def test_target_gradients_flow_in_instead_of_ones() -> None:
    program, _, loss = _network()
    block = program.global_block()
    given = block.create_var(name="given", shape=[1], dtype="float32")
    gradients(loss, block.var("w"), target_gradients=given)
    assert _types(program)[4] == "assign"


def test_gradients_taken_twice_get_new_names() -> None:
    program, _, loss = _network()
    w = program.global_block().var("w")
    first, second = gradients(loss, w), gradients(loss, w)
    assert [first[0].name, second[0].name] == ["w@GRAD", "w@GRAD_0"]  # type: ignore[union-attr]


def test_second_backward_pass_reads_old_gradients_by_their_old_names() -> None:
    program, x, loss = _network()
    x.stop_gradient = False
    block = program.global_block()
    (slope,) = gradients(loss, x)
    both = _apply(block, "elementwise_add", X=_apply(block, "mean", X=slope), Y=loss)
    before = len(block.ops)
    append_backward(both, make_gradients=_chain)
    reads = [name for op in block.ops[before:] for name in op.input_arg_names]
    assert "mean_0@GRAD_0" in reads and "mean_0@GRAD" not in reads


def _chain(op: Any) -> list[GradOp]:
    given = [name + "@GRAD" for name in op.output_arg_names]
    made = [name + "@GRAD" for name in op.input_arg_names]
    return [GradOp(op.type + "_grad", {"Out@GRAD": given}, {"X@GRAD": made})]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda p, _: (3, {}), TypeError, "must be fluid.framework.Variable"),
        (lambda p, loss: (loss, {"parameter_list": ["v"]}), ValueError, "'v', which the program"),
        (lambda p, loss: (loss, {"parameter_list": "w"}), TypeError, "set, list or tuple"),
        (lambda p, loss: (loss, {"no_grad_set": [1]}), TypeError, "holds int"),
        (lambda p, loss: (loss, {"callbacks": print}), TypeError, "'callbacks'.* must be a list"),
        (lambda p, loss: (loss, {"callbacks": [3]}), TypeError, r"but received \[3\]"),
        (lambda p, loss: (loss, {"no_grad_set": ["mul_1"]}), ValueError, "no gradient can"),
        (
            lambda p, loss: (loss, {"checkpoints": ["elsewhere"]}),
            ValueError,
            "are not computed on the way",
        ),
    ],
)
def test_mistakes(change: Any, error: type[Exception], message: str) -> None:
    program, _, loss = _network()
    target, options = change(program, loss)
    with pytest.raises(error, match=message):
        append_backward(target, **options)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"inputs": 3}, TypeError, "'inputs'"),
        ({"target_gradients": [None, None]}, ValueError, "same number"),
        ({"target_gradients": "x"}, TypeError, "target_gradients"),
    ],
)
def test_mistakes_with_gradients(options: Any, error: type[Exception], message: str) -> None:
    _, x, loss = _network()
    with pytest.raises(error, match=message):
        gradients(**{"targets": loss, "inputs": x, **options})
