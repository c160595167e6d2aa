"""Graphs of programs: a pass of a user's changes what runs, and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import refluid.fluid as fluid
from refluid.fluid import core
from refluid.fluid.framework import IrGraph


def _network() -> tuple[fluid.Program, fluid.Program, fluid.Variable]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.unique_name.guard(), fluid.program_guard(main, startup):
        x = fluid.data("x", [None, 2])
        half = fluid.ParamAttr("w", initializer=fluid.initializer.Constant(0.5))
        hidden = fluid.layers.fc(x, 3, act="relu", param_attr=half)
        loss = fluid.layers.mean(hidden)
        fluid.optimizer.Momentum(0.1, 0.9).minimize(loss)
    return main, startup, loss


def _trained(main: fluid.Program, startup: fluid.Program, loss: str) -> list[float]:
    executor = fluid.Executor(fluid.CPUPlace())
    with fluid.scope_guard(fluid.Scope()):
        executor.run(startup)
        feed = {"x": np.arange(8, dtype="float32").reshape(4, 2)}
        return [float(executor.run(main, feed, [loss])[0][0]) for _ in range(3)]


def test_a_graph_gives_the_same_program_back() -> None:
    main, startup, loss = _network()
    graph = IrGraph(core.Graph(main.desc), for_test=False)
    again = graph.clone().to_program()
    assert [op.type for op in again.global_block().ops] == [
        op.type for op in main.global_block().ops
    ]
    assert _trained(again, startup, loss.name) == _trained(main, startup, loss.name)
    assert not graph.is_test()
    assert not graph.has_circle()
    assert graph.graph_num() == 1


def test_an_operator_is_put_between_two() -> None:
    """A pass that doubles what `mul` reads, as one that quantises would insert its operators."""
    main, startup, loss = _network()
    test = main.clone(for_test=True)
    graph = IrGraph(core.Graph(test.desc), for_test=True)
    mul = next(node for node in graph.all_op_nodes() if node.name() == "mul")
    read = next(node for node in mul.inputs if node.name() == "x")
    doubled = graph.create_var_node("x.doubled", read.type(), read.shape(), read.dtype())
    scale = graph.create_op_node("scale", {"scale": 2.0}, {"X": read}, {"Out": doubled})
    graph.link_to(read, scale)
    graph.link_to(scale, doubled)
    graph.update_input_link(read, doubled, mul)
    graph.resolve_hazard()
    changed = graph.to_program()
    types = [op.type for op in changed.global_block().ops]
    assert types[:2] == ["scale", "mul"]
    assert mul.op() is not None
    assert mul.input("X") == ["x.doubled"]
    once, twice = (_trained(one, startup, loss.name)[0] for one in (test, changed))
    assert twice == pytest.approx(2 * once)
    compiled = fluid.CompiledProgram(graph.graph)
    assert _trained(compiled, startup, loss.name)[0] == pytest.approx(2 * once)  # type: ignore[arg-type]


def test_versions_of_a_variable_are_read_before_the_next_is_written() -> None:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()):
        x = fluid.data("x", [1])
        total = fluid.layers.fill_constant([1], "float32", 1.0)
        first = fluid.layers.elementwise_add(total, x)
        fluid.layers.increment(total)  # writes `total` anew
        fluid.layers.elementwise_mul(total, first)
    graph = IrGraph(core.Graph(program.desc))
    versions = [node for node in graph.all_var_nodes() if node.name() == total.name]
    assert len(versions) == 2
    assert [node.name() for node in graph.topology_sort()] == [
        op.type for op in program.global_block().ops
    ]
    before = graph.build_adjacency_list()
    add = next(node for node in before if node.name() == "elementwise_add")
    assert {node.name() for node in before[add]} == {"fill_constant"}


def test_nodes_are_removed_and_drawn(tmp_path: Path) -> None:
    main, _, loss = _network()
    graph = IrGraph(core.Graph(main.clone(for_test=True).desc), for_test=True)
    mean = next(node for node in graph.all_op_nodes() if node.name() == "mean")
    graph.safe_remove_nodes({mean, *mean.outputs})
    program = graph.to_program()
    assert "mean" not in [op.type for op in program.global_block().ops]
    assert not program.global_block().has_var(loss.name)
    assert {node.name() for node in graph.all_persistable_nodes()} == {"w", "fc_0.b_0"}
    graph.draw(str(tmp_path), "net", marked_nodes=graph.all_op_nodes())
    assert "relu" in (tmp_path / "net.dot").read_text()
    with pytest.raises(ValueError, match="no node of this graph"):
        graph.link_to(mean, mean)


def test_a_circle_is_found() -> None:
    main, _, _ = _network()
    graph = IrGraph(core.Graph(main.desc))
    relu = next(node for node in graph.all_op_nodes() if node.name() == "relu")
    order = graph.create_control_dep_var()
    graph.link_to(relu, order)
    graph.link_to(order, next(n for n in graph.all_op_nodes() if n.name() == "mul"))
    assert order.is_ctrl_var()
    assert graph.has_circle()
