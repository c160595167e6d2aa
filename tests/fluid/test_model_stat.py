"""The table of a network's operators."""

from __future__ import annotations

import pytest

from refluid import fluid
from refluid.fluid.contrib.model_stat import summary
from tests.fluid.once import own_programs


def test_sizes_parameters_and_operations(capsys: pytest.CaptureFixture[str]) -> None:
    with own_programs():
        x = fluid.data("x", [None, 3, 200, 200])
        y = fluid.layers.conv2d(x, 64, 7, 2, 3, bias_attr=False)
        y = fluid.layers.batch_norm(y, act="relu")
        loss = fluid.layers.mean(fluid.layers.fc(y, 10, bias_attr=False))
        fluid.optimizer.SGD(0.1).minimize(loss)
        summary(fluid.default_main_program())
    lines = capsys.readouterr().out.splitlines()
    found = [[part.strip() for part in line.split("|")[1:-1]] for line in lines if "|" in line]
    assert found == [
        ["No.", "TYPE", "INPUT", "OUTPUT", "PARAMs", "FLOPs"],
        ["0", "conv2d", "(3, 200, 200)", "(64, 100, 100)", "9408", "188160000"],
        ["1", "batch_norm", "(64, 100, 100)", "(64, 100, 100)", "256", "1280000"],
        ["2", "relu", "(64, 100, 100)", "(64, 100, 100)", "0", "640000"],
        ["3", "mul", "(64, 100, 100)", "(10)", "6400000", "12800000"],
    ]
    assert len({len(line) for line in lines[:-2]}) == 1
    assert lines[-2:] == ["Total PARAMs: 6409664(0.0064G)", "Total FLOPs: 202880000(0.20G)"]


def test_a_network_without_any_gives_the_head_alone(capsys: pytest.CaptureFixture[str]) -> None:
    summary(fluid.Program())
    assert "Total FLOPs: 0(0.00G)" in capsys.readouterr().out
    with pytest.raises(TypeError, match="summary takes a Program, not str"):
        summary("main")
