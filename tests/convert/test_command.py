"""`refluid convert` on the command line, and the formats of other libraries."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

import refluid.fluid as fluid
from refluid.cli.main import app
from refluid.convert import folder as folders
from refluid.convert.checking import largest_error, run_module, sample_feeds
from refluid.convert.source import read_model
from tests.convert.networks import Built, attention, images, regression
from tests.golden import GOLDEN, needs_golden


def call(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["convert", *map(str, arguments)])
    return result.exit_code, result.output


def test_a_model_becomes_a_module_and_goes_back(tmp_path: Path) -> None:
    model = Built(images).save(tmp_path / "model")
    status, output = call(model, "--out", tmp_path / "out")
    assert status == 0 and "outputs agree within" in output
    space: dict[str, object] = {}
    exec((tmp_path / "out" / "model.py").read_text(), space)
    network = space["Model"]()  # type: ignore[operator]
    network.load_state_dict(torch.load(tmp_path / "out" / "model.pt", weights_only=True))
    status, output = call(tmp_path / "out", "--to", "fluid", "--out", tmp_path / "back")
    assert status == 0 and (tmp_path / "back" / "__model__").exists()


def test_a_training_program_of_fluid_save(tmp_path: Path) -> None:
    net = Built(regression, lambda: fluid.optimizer.SGD(0.1))
    with fluid.scope_guard(net.scope):
        fluid.save(net.main, str(tmp_path / "net"))
    status, output = call(tmp_path / "net.pdmodel", "--out", tmp_path / "out")
    assert status == 0, output
    assert "make_optimizer" in (tmp_path / "out" / "model.py").read_text()


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    status, output = call(tmp_path / "nothing")
    assert status and "does not exist" in output
    status, output = call(tmp_path, "--to", "tensorflow")
    assert status and "the formats are" in output


@needs_golden
def test_a_recorded_model(tmp_path: Path) -> None:
    status, output = call(GOLDEN / "zoo" / "book_word2vec", "--out", tmp_path)
    assert status == 0, output


@pytest.mark.parametrize("build", [images, attention])
def test_torch_export(build: object, tmp_path: Path) -> None:
    from refluid.convert import exports

    converted = folders.convert(read_model(Built(build).save(tmp_path)))  # type: ignore[arg-type]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path = exports.to_torch_export(converted, tmp_path)
        again = torch.export.load(path).module()
    feeds = sample_feeds(converted.source)
    found = run_module(again, converted.source, feeds)
    assert largest_error(found, run_module(converted.model, converted.source, feeds)) < 1e-6


def test_safetensors(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    model = Built(images).save(tmp_path / "model")
    status, output = call(model, "--to", "safetensors", "--out", tmp_path / "out")
    assert status == 0 and "model.safetensors" in output


def test_onnx(tmp_path: Path) -> None:
    for name in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(name)
    from refluid.convert import exports

    converted = folders.convert(read_model(Built(images).save(tmp_path)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        path, error = exports.to_onnx(converted, tmp_path)
    assert path.exists() and error < 1e-5


def test_a_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "safetensors", None)
    monkeypatch.setitem(sys.modules, "safetensors.torch", None)
    model = Built(images).save(tmp_path / "model")
    status, output = call(model, "--to", "safetensors", "--out", tmp_path / "out")
    assert status and "pip install" in output
