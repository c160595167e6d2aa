"""Inference models as PyTorch: the same outputs, and code that a person would keep."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pytest
import torch

import refluid.fluid as fluid
from refluid.convert import folder as folders
from refluid.convert import rules
from refluid.convert.checking import sample_feeds
from refluid.convert.source import read_model
from refluid.convert.table import NoCounterpart, converted_kinds
from refluid.core.errors import EnforceNotMet
from tests.convert.networks import Build, Built, attention, images
from tests.golden import GOLDEN, needs_golden

IMAGES = """\
    def __init__(self):
        super().__init__()
        self.conv2d_0 = nn.Conv2d(3, 8, 3, padding=1, bias=False)
        self.batch_norm_0 = nn.BatchNorm2d(8, eps=1e-05, momentum=0.1)
        self.conv2d_1 = nn.Conv2d(8, 8, 3, padding=1, groups=2)
        self.conv2d_transpose_0 = nn.ConvTranspose2d(8, 4, 2, stride=2)
        self.fc_0 = nn.Linear(4, 5)

    def forward(self, image):
        x = F.relu(self.batch_norm_0(self.conv2d_0(image)))
        x = self.conv2d_transpose_0(F.avg_pool2d(x + F.relu(self.conv2d_1(x)), 2))
        x = self.fc_0(x.mean((2, 3), keepdim=True).flatten(1))
        x = F.softmax(x, dim=-1)
        return x
"""


@pytest.mark.parametrize("build", [images, attention])
def test_outputs_agree(build: Build, tmp_path: Path) -> None:
    converted = folders.convert(read_model(Built(build).save(tmp_path)))
    assert folders.check(converted) < 1e-6
    feeds = sample_feeds(converted.source, rows=5, seed=3)
    assert folders.check(converted, feeds) < 1e-6


def test_the_code_is_the_expected_one(tmp_path: Path) -> None:
    converted = folders.convert(read_model(Built(images).save(tmp_path)))
    assert converted.text.endswith(IMAGES), converted.text
    imported = {
        name.name
        for node in ast.walk(ast.parse(converted.text))
        if isinstance(node, ast.Import)
        for name in node.names
    }
    assert imported == {"torch", "torch.nn", "torch.nn.functional"}


def test_a_shared_table_is_one_parameter(tmp_path: Path) -> None:
    converted = folders.convert(read_model(Built(attention).save(tmp_path)))
    assert "self.table.weight.mT" in converted.text
    assert sum(one.numel() == 160 for one in converted.model.parameters()) == 1


def test_a_wrong_weight_is_found(tmp_path: Path) -> None:
    converted = folders.convert(read_model(Built(images).save(tmp_path)))
    with torch.no_grad():
        converted.model.get_parameter("conv2d_1.weight").mul_(1.001)
    assert folders.check(converted) > 1e-5


def test_the_way_back_gives_fluid_the_same_files(tmp_path: Path) -> None:
    model = Built(images).save(tmp_path / "model")
    folders.save(folders.convert(read_model(model)), tmp_path / "torch")
    names = folders.back_to_fluid(tmp_path / "torch", tmp_path / "fluid")
    assert "fc_0.w_0" in names
    for file in model.iterdir():
        assert (tmp_path / "fluid" / file.name).read_bytes() == file.read_bytes(), file.name


def test_changed_weights_go_back_too(tmp_path: Path) -> None:
    model = Built(images).save(tmp_path / "model")
    folders.save(folders.convert(read_model(model)), tmp_path / "torch")
    state = torch.load(tmp_path / "torch" / "model.pt", weights_only=True)
    state["fc_0.weight"] = torch.arange(20.0).reshape(5, 4)
    torch.save(state, tmp_path / "torch" / "model.pt")
    folders.back_to_fluid(tmp_path / "torch", tmp_path / "fluid")
    scope, executor = fluid.Scope(), fluid.Executor()
    with fluid.scope_guard(scope):
        fluid.io.load_inference_model(str(tmp_path / "fluid"), executor)
    found = np.array(scope.find_var("fc_0.w_0").get_tensor())
    np.testing.assert_array_equal(found, np.arange(20.0).reshape(5, 4).T)
    with pytest.raises(EnforceNotMet, match="no folder of"):
        folders.back_to_fluid(model, tmp_path / "other")


def test_all_operators_without_counterpart_are_named(tmp_path: Path) -> None:
    def build() -> tuple[list[str], list[object], None]:
        x = fluid.data("x", [None, 4])
        index = fluid.layers.fill_constant([2, 1], "int32", 0)
        rows = fluid.layers.multiplex([x, x], index)
        return ["x"], [rows, fluid.layers.unique(fluid.layers.reshape(x, [-1]))[0]], None

    source = read_model(Built(build).save(tmp_path))
    with pytest.raises(NoCounterpart, match="2 operators: multiplex, unique"):
        folders.convert(source)


@needs_golden
@pytest.mark.parametrize("name", ["infer", "infer_combined"])
def test_models_that_fluid_saved(name: str) -> None:
    path = GOLDEN / "formats" / name
    files = (path / "model", path / "params") if name == "infer_combined" else (path,)
    assert folders.check(folders.convert(read_model(*files))) < 1e-6


def test_every_converter_is_of_an_operator() -> None:
    from refluid.ops.registry import find

    rules.load()
    assert [kind for kind in converted_kinds() if find(kind) is None] == []
