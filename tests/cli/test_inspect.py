"""`refluid inspect` reads program files and saved models."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from refluid.cli.main import app
from refluid.ir import framework_pb2
from refluid.ir.framework_pb2 import VarType


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    desc = framework_pb2.ProgramDesc()
    block = desc.blocks.add(idx=0, parent_idx=-1)
    for name, persistable, dims in [("w", True, [784, 10]), ("x", False, [-1, 784])]:
        var = block.vars.add(name=name, persistable=persistable)
        var.type.type = VarType.LOD_TENSOR
        var.type.lod_tensor.tensor.data_type = VarType.FP32
        var.type.lod_tensor.tensor.dims.extend(dims)
    scale = block.ops.add(type="scale")
    scale.inputs.add(parameter="X", arguments=["x"])
    scale.outputs.add(parameter="Out", arguments=["x"])
    (tmp_path / "__model__").write_bytes(desc.SerializeToString())
    return tmp_path


def test_tables(saved: Path) -> None:
    for path in (saved, saved / "__model__"):
        shown = CliRunner().invoke(app, ["inspect", str(path)])
        assert shown.exit_code == 0, shown.output
        assert "scale" in shown.stdout
        assert "[784, 10]" in shown.stdout
        assert "7,840" in shown.stdout
        assert "31.4 kB" in shown.stdout


def test_text_form_follows_when_asked(saved: Path) -> None:
    plain = CliRunner().invoke(app, ["inspect", str(saved)])
    full = CliRunner().invoke(app, ["inspect", str(saved), "--text"])
    assert full.stdout.startswith(plain.stdout)
    assert "scale" in full.stdout[len(plain.stdout) :]


def test_missing_and_wrong_files(tmp_path: Path) -> None:
    missing = CliRunner().invoke(app, ["inspect", str(tmp_path)])
    assert missing.exit_code == 2
    assert "no such program file" in missing.stderr
    (tmp_path / "notes.txt").write_text("not a program")
    wrong = CliRunner().invoke(app, ["inspect", str(tmp_path / "notes.txt")])
    assert wrong.exit_code == 2
    assert "is no ProgramDesc file" in wrong.stderr.replace("\n", " ")
