"""`refluid inspect --after PASS` prints what the pass changes, and why it left the rest."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid import fluid
from refluid.cli.main import app


@pytest.fixture
def saved(tmp_path: Path) -> str:
    program = fluid.Program()
    with fluid.program_guard(program, fluid.Program()), fluid.unique_name.guard():
        x = fluid.data("x", [None, 4])
        hidden = fluid.layers.fc(x, 8, act="relu")
        fluid.layers.elementwise_add(fluid.layers.fc(x, 8, bias_attr=False), hidden)
    path = tmp_path / "program"
    path.write_bytes(program.serialize_to_string())
    return str(path)


def test_the_difference(saved: str) -> None:
    shown = CliRunner().invoke(app, ["inspect", saved, "--after", "fuse_gemm_epilogue"])
    assert shown.exit_code == 0, shown.output
    lines = shown.stdout.splitlines()
    assert lines[:2] == ["--- before", "+++ after fuse_gemm_epilogue"]
    assert any(line.startswith("+  fused_gemm_epilogue(X=x") for line in lines)
    assert any(line.startswith("-  mul(X=x") for line in lines)
    assert any(line.startswith("not fused: mul + elementwise_add: ") for line in lines)


def test_nothing_to_do_and_no_such_pass(saved: str) -> None:
    shown = CliRunner().invoke(app, ["inspect", saved, "--after", "fuse_bn_act_ops"])
    assert shown.stdout == "fuse_bn_act_ops changes nothing.\n"
    unknown = CliRunner().invoke(app, ["inspect", saved, "--after", "fuse_all"])
    assert unknown.exit_code == 2
    assert "fuse_conv_bias" in unknown.output
