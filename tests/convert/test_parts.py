"""What is copied into converted models: plain PyTorch, and only what is used."""

from __future__ import annotations

import ast
from pathlib import Path

import torch

import refluid.fluid as fluid
from refluid.convert import folder as folders
from refluid.convert import parts
from refluid.convert.source import read_model
from tests.convert.networks import Built, images

FOLDER = Path(parts.__file__).parent
ALLOWED = {"__future__", "collections.abc", "math", "torch", "torch.nn", "torch.nn.functional"}


def recurrent() -> tuple[list[str], list[object], None]:
    x = fluid.data("x", [None, 12], lod_level=1)
    forward = fluid.layers.dynamic_gru(x, 4)
    hidden, _ = fluid.layers.dynamic_lstm(fluid.layers.fc(x, 8), 8)
    return ["x"], [forward, hidden], None


def test_they_import_nothing_but_torch() -> None:
    for file in FOLDER.glob("*.py"):
        if file.name == "__init__.py":
            continue
        nodes = list(ast.walk(ast.parse(file.read_text(encoding="utf-8"))))
        found = {one.module for one in nodes if isinstance(one, ast.ImportFrom)}
        found |= {name.name for one in nodes if isinstance(one, ast.Import) for name in one.names}
        others = {name for name in found - ALLOWED if not str(name).startswith(parts.__name__)}
        assert others == set(), file.name


def test_every_part_is_used_by_a_rule() -> None:
    rules = "\n".join(file.read_text() for file in (FOLDER.parent / "rules").glob("*.py"))
    assert {part.name for part in parts.used_by(rules)} == set(parts.parts())


def test_only_what_is_used_is_copied(tmp_path: Path) -> None:
    plain = folders.convert(read_model(Built(images).save(tmp_path / "images"))).text
    assert "\ndef " not in plain and plain.count("\nclass ") == 1
    text = folders.convert(read_model(Built(recurrent).save(tmp_path / "sequences"))).text
    names = [node.name for node in ast.parse(text).body if hasattr(node, "name")]
    needed = {"GRUStep", "GRU", "LSTM", "reverse_sequences", "rows_of_steps", "time_steps"}
    assert {*needed, "places_of", "Model"} == set(names)
    space: dict[str, object] = {}
    exec(text, space)  # in the order in which they stand


def test_weights_of_gates_go_back_to_fluid(tmp_path: Path) -> None:
    model = Built(recurrent).save(tmp_path / "model")
    folders.save(folders.convert(read_model(model)), tmp_path / "torch")
    state = torch.load(tmp_path / "torch" / "model.pt", weights_only=True)
    assert state["gru_0.cell.gates.weight"].shape == (8, 4)
    folders.back_to_fluid(tmp_path / "torch", tmp_path / "fluid")
    for file in model.iterdir():
        assert (tmp_path / "fluid" / file.name).read_bytes() == file.read_bytes(), file.name
