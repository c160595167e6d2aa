"""`fluid.debugger` and `fluid.net_drawer`: programs as text and as graphs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from refluid import fluid
from refluid.core import flags
from refluid.core.errors import EnforceNotMet


def trained() -> tuple[fluid.Program, fluid.Program, str]:
    main, startup = fluid.Program(), fluid.Program()
    with fluid.program_guard(main, startup), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        loss = fluid.layers.mean(fluid.layers.log(fluid.layers.fc(x, 2, act="relu")))
        fluid.optimizer.SGD(0.1).minimize(loss)
    return main, startup, loss.name


def nodes_and_ends(text: str) -> tuple[set[str], set[str]]:
    """Names of the nodes that a graph declares, and of those its edges join."""
    text = text.replace('"', "")
    declared = set(re.findall(r"^    (\S+) \[label", text, re.MULTILINE))
    edges = re.findall(r"^    (\S+) -> (\S+);$", text, re.MULTILINE)
    return declared, {end for edge in edges for end in edge}


def test_a_block_as_a_graph(tmp_path: Path) -> None:
    main, _, _ = trained()
    path = tmp_path / "block.dot"
    fluid.debugger.draw_block_graphviz(main.global_block(), ["relu", "fc_0.w_0"], str(path))
    text = path.read_text()
    declared, ends = nodes_and_ends(text)
    assert declared == ends
    assert len([one for one in declared if one.startswith("o")]) == len(main.global_block().ops)
    red = [line for line in text.splitlines() if "color=red" in line]
    assert sum('label="relu"' in line for line in red) == 1
    assert all("relu" in line or "fc_0.w_0" in line for line in red)
    assert text.count("{") == text.count("}")


def test_both_programs_in_one_picture(tmp_path: Path) -> None:
    main, startup, _ = trained()
    path = tmp_path / "both.gv"
    text = fluid.net_drawer.draw_graph(
        startup, main, filename=str(path), graph_attr={"rankdir": "LR"}, node_attr={"shape": "box"}
    )
    assert path.read_text() == text
    declared, ends = nodes_and_ends(text)
    operators = [*startup.global_block().ops, *main.global_block().ops]
    assert declared >= ends
    assert len([one for one in declared if one.startswith("o")]) == len(operators)
    assert '  graph [rankdir="LR"];' in text
    assert text.count("{") == text.count("}")
    with pytest.raises(TypeError, match="not 'file'"):
        fluid.net_drawer.draw_graph(startup, main, file="x")


def test_operators_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    main, _, _ = trained()
    fluid.debugger.pprint_program_codes(main)
    forward = capsys.readouterr().out
    assert forward.startswith("block 0:\n  mul(X=x, Y=fc_0.w_0) -> Out=fc_0.tmp_0")
    assert "sgd(" in forward
    assert "_grad(" not in forward
    fluid.debugger.pprint_block_codes(main.global_block(), show_backward=True)
    assert "relu_grad(" in capsys.readouterr().out


def test_the_first_nan_is_named() -> None:
    main, startup, loss = trained()
    executor, scope = fluid.Executor(), fluid.Scope()
    executor.run(startup, scope=scope)
    feed = {"x": np.full((2, 4), -np.inf, "float32")}
    with pytest.raises(EnforceNotMet):
        fluid.debugger.run_fast_nan_inf_debug(executor, main, feed, [loss], scope=scope)
    assert not flags.value("fast_check_nan_inf")
