"""Plans: what their source looks like and what it computes, against plain torch."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import refluid.ops  # noqa: F401
from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.core.scope import Scope
from refluid.ir.block import Block
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.ops.registry import gradient_ops
from refluid.runtime.memory import Memory
from refluid.runtime.plan import Plan
from refluid.runtime.request import Request

CPU = torch.device("cpu")


class Net:
    """A program under construction, and the scope its state is in."""

    def __init__(self) -> None:
        self.program = Program()
        self.block: Block = self.program.global_block()
        self.scope = Scope()

    def data(self, name: str, *shape: int) -> str:
        self.block.create_var(name=name, shape=shape, dtype="float32", is_data=True)
        return name

    def state(self, name: str, value: torch.Tensor) -> str:
        self.block.create_var(name=name, shape=value.shape, dtype=value.dtype, persistable=True)
        self.scope.var(name).value = value
        return name

    def op(self, type: str, out: str | dict[str, str], attrs: dict | None = None, **inputs) -> str:
        outputs = {"Out": out} if isinstance(out, str) else out
        for name in outputs.values():
            if self.block.find_var_recursive(name) is None:
                self.block.create_var(name=name)
        self.block.append_op(type=type, inputs=inputs, outputs=outputs, attrs=attrs)
        return next(iter(outputs.values()))

    def gradients(self, loss: str) -> None:
        """Appends the gradients of all operators so far, of `loss` = 1."""
        forward = list(self.block.ops)
        self.op("fill_constant", loss + "@GRAD", {"shape": [1], "value": 1.0})
        for op in reversed(forward):
            for made in gradient_ops(op):
                for name in (name for names in made.outputs.values() for name in names):
                    self.block.create_var(name=name)
                self.block.append_op(
                    type=made.type, inputs=made.inputs, outputs=made.outputs, attrs=made.attrs
                )

    def plan(self, *fetches: str, feeds: tuple[str, ...] = (), **options) -> Plan:
        return Plan(Request(self.block, feeds, fetches, CPU, **options))

    def run(self, *fetches: str, **feeds: torch.Tensor) -> list[torch.Tensor]:
        plan = self.plan(*fetches, feeds=tuple(feeds))
        return [fetched.value for fetched in plan.run(self.scope, list(feeds.values()))]


def test_values_are_freed_after_their_last_use() -> None:
    net = Net()
    x = net.data("x", -1, 3)
    net.op("relu", "a", X=x)
    net.op("square", "b", X="a")
    net.op("mean", "c", X="b")
    text = net.plan("c", feeds=("x",)).text
    assert text.splitlines() == [
        "def step(F, C, L):",
        "    v0, = F",
        "    v1 = relu(v0)",
        "    del v0",
        "    v2 = square(v1)",
        "    del v1",
        "    v3 = mean(v2)",
        "    del v2",
        "    return (v3,), ((),)",
    ]
    assert "del" not in net.plan("c", feeds=("x",), memory=Memory(garbage=math.inf)).text


def test_gradients_without_code_come_from_recordings() -> None:
    net = Net()
    x = net.data("x", -1, 3)
    net.op("sin", "a", X=x)
    net.op("mean", "loss", X="a")
    net.gradients("loss")
    plan = net.plan("x@GRAD", feeds=("x",))
    assert "k0_0, v1 = record_sin(v0)" in plan.text
    value = torch.randn(4, 3)
    (grad,) = net.run("x@GRAD", x=value)
    torch.testing.assert_close(grad, value.cos() / 12)


def test_a_gradient_of_overwritten_input_reads_the_new_value() -> None:
    net = Net()
    net.state("w", torch.full((2,), 0.5))
    net.state("rate", torch.ones(1))
    net.op("sin", "a", X="w")
    net.op("mean", "loss", X="a")
    forward = list(net.block.ops)
    net.op("fill_constant", "step", {"shape": [2], "value": -0.25})
    net.op("sgd", {"ParamOut": "w"}, Param="w", Grad="step", LearningRate="rate")
    net.op("fill_constant", "loss@GRAD", {"shape": [1], "value": 1.0})
    for op in reversed(forward):
        for made in gradient_ops(op):
            for names in made.outputs.values():
                net.block.create_var(name=names[0])
            net.block.append_op(type=made.type, inputs=made.inputs, outputs=made.outputs)
    (grad,) = net.run("w@GRAD")
    torch.testing.assert_close(grad, torch.full((2,), 0.75).cos() / 2)


def test_a_view_of_a_parameter_keeps_its_value_when_the_parameter_is_updated() -> None:
    net = Net()
    net.state("w", torch.ones(2))
    net.state("rate", torch.ones(1))
    net.op("assign", "before", X="w")
    net.op("fill_constant", "step", {"shape": [2], "value": 1.0})
    net.op("sgd", {"ParamOut": "w"}, Param="w", Grad="step", LearningRate="rate")
    before, after = net.run("before", "w")
    assert before.tolist() == [1, 1]
    assert after.tolist() == [0, 0]


def test_a_copy_of_a_parameter_in_the_scope_is_independent() -> None:
    net = Net()
    net.state("w", torch.ones(2))
    net.state("backup", torch.zeros(2))
    net.op("assign", "backup", X="w")
    net.run()
    net.scope.var("w").value.add_(1)
    assert net.scope.var("backup").value.tolist() == [1, 1]


def test_a_fed_tensor_is_not_written_to() -> None:
    net = Net()
    net.data("x", 1)
    net.op("increment", "x", {"step": 1.0}, X="x")
    fed = torch.zeros(1)
    (value,) = net.run("x", x=fed)
    assert value.item() == 1
    assert fed.item() == 0


def test_optimizers_of_one_kind_are_one_call() -> None:
    net = Net()
    net.state("rate", torch.full((1,), 0.5))
    for index in range(3):
        net.state(f"w{index}", torch.zeros(index + 1))
        net.op("fill_constant", f"g{index}", {"shape": [index + 1], "value": 1.0})
    for index in range(3):
        net.op(
            "sgd",
            {"ParamOut": f"w{index}"},
            Param=f"w{index}",
            Grad=f"g{index}",
            LearningRate="rate",
        )
    assert net.plan().text.count("sgd_many(") == 1
    net.run()
    for index in range(3):
        assert net.scope.var(f"w{index}").value.tolist() == [-0.5] * (index + 1)


def test_an_optimizer_that_reads_what_another_wrote_comes_after_it() -> None:
    net = Net()
    net.state("rate", torch.ones(1))
    net.state("w", torch.zeros(1))
    net.state("u", torch.zeros(1))
    net.op("fill_constant", "g", {"shape": [1], "value": 1.0})
    net.op("sgd", {"ParamOut": "w"}, Param="w", Grad="g", LearningRate="rate")
    net.op("sgd", {"ParamOut": "u"}, Param="u", Grad="w", LearningRate="rate")
    assert "sgd_many" not in net.plan().text
    net.run()
    assert net.scope.var("u").value.item() == 1


@pytest.mark.parametrize(("flag", "expected"), [(True, 7.0), (False, 1.0)])
def test_conditional_block(flag: bool, expected: float) -> None:
    net = Net()
    net.state("rate", torch.ones(1))
    net.state("flag", torch.tensor([flag]))
    net.op("fill_constant", "seven", {"shape": [1], "value": 7.0})
    outer = net.block
    inner = net.program.create_block()
    inner.append_op(type="assign", inputs={"X": "seven"}, outputs={"Out": "rate"})
    net.program.rollback()
    from refluid.ir.operator import Operator

    outer.create_var(name="steps")
    Editor(outer).append(
        Operator(
            outer,
            "conditional_block",
            {"Cond": "flag", "Input": "seven"},
            {"Out": "rate", "Scope": "steps"},
            {"sub_block": inner, "is_scalar_condition": True},
        )
    )
    (rate,) = net.run("rate")
    assert rate.item() == expected
    assert net.scope.var("rate").value.item() == expected


def test_what_nobody_computes_is_found_before_the_first_run() -> None:
    net = Net()
    net.data("x", 1)
    net.op("relu", "a", X="x")
    with pytest.raises(EnforceNotMet, match=r"relu Op's Input Variable X\(x\) is not initialized"):
        net.plan("a")


def test_seeded_random_operators_repeat_and_others_go_on() -> None:
    net = Net()
    net.op("uniform_random", "fixed", {"shape": [4], "seed": 3})
    net.op("uniform_random", "free", {"shape": [4]})
    plan = net.plan("fixed", "free")
    first = [np.asarray(fetched.value) for fetched in plan.run(net.scope, [])]
    second = [np.asarray(fetched.value) for fetched in plan.run(net.scope, [])]
    np.testing.assert_array_equal(first[0], second[0])
    assert not np.array_equal(first[1], second[1])


def test_temporaries_that_nobody_else_sees_are_overwritten_without_a_copy() -> None:
    main = fluid.Program()
    with fluid.program_guard(main, fluid.Program()), fluid.unique_name.guard():
        x, scale = fluid.data("x", [3]), fluid.layers.fill_constant([1], "float32", 2.0)
        found = main.global_block().create_var(name="found", dtype="bool", shape=[1])
        own, root = fluid.layers.scale(x, 2.0), fluid.layers.scale(x, 3.0)
        view = fluid.layers.reshape(root, [3, 1])
        for value in (own, view, x):  # value /= scale
            main.global_block().append_op(
                type="check_finite_and_unscale",
                inputs={"X": value, "Scale": scale},
                outputs={"Out": value, "FoundInfinite": found},
            )
        total = fluid.layers.elementwise_add(own, root)
    given = torch.ones(3)
    plan = Plan(Request(main.global_block(), ("x",), (total.name, view.name, "x"), CPU))
    lines = [line for line in plan.text.splitlines() if "unscale(" in line]
    assert [line.count(".clone()") for line in lines] == [0, 1, 1]
    results = [one.value.flatten().tolist() for one in plan.run(Scope(), [given])]
    assert results == [[4.0] * 3, [1.5] * 3, [0.5] * 3]
    assert given.tolist() == [1.0] * 3
