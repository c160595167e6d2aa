"""Layers that repeat: one class and a list of modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import refluid.fluid as fluid
from refluid.convert import folder as folders
from refluid.convert.checking import sample_feeds
from refluid.convert.source import read_model
from tests.convert.networks import Built, Network
from tests.convert.test_training import both_trained

layers = fluid.layers


def encoder(name: Callable[[int, str], str | None], collect: bool = False) -> Network:
    """Three layers that read a mask, and what is made of the last one, or of all."""
    x, mask = fluid.data("x", [None, 8]), fluid.data("mask", [None, 8])
    y = layers.fc(x, 8, name=name(9, "before"))
    found = []
    for number in range(3):
        z = layers.fc(y, 6, act="relu", name=name(number, "wide_fc"))
        z = layers.elementwise_mul(layers.fc(z, 8, name=name(number, "narrow_fc")), mask)
        y = layers.layer_norm(layers.elementwise_add(y, z), name=name(number, "norm"))
        found.append(y)
    y = layers.sums(found) if collect else y
    return ["x", "mask"], [layers.fc(y, 2, name=name(9, "after"))], None


def named(number: int, what: str) -> str:
    return f"encoder_layer_{number}_{what}" if number < 9 else what


def text_of(build: Callable[[], Network], folder: Path) -> tuple[str, Any]:
    converted = folders.convert(read_model(Built(build).save(folder / "model")))
    feeds = sample_feeds(converted.source, rows=5, seed=1)
    assert folders.check(converted, feeds) < 1e-6
    return converted.text, converted


def test_named_layers_are_a_class_of_that_name(tmp_path: Path) -> None:
    text, converted = text_of(lambda: encoder(named), tmp_path)
    assert "class EncoderLayer(nn.Module):" in text
    assert "nn.ModuleList(EncoderLayer() for _ in range(3))" in text
    assert "self.wide_fc = nn.Linear(8, 6)" in text
    assert "encoder_layer.2.narrow_fc.weight" in converted.model.state_dict()


def test_layers_without_names_are_a_class_too(tmp_path: Path) -> None:
    text, _ = text_of(lambda: encoder(lambda *_: None), tmp_path)
    assert "nn.ModuleList(Block() for _ in range(3))" in text


def test_what_is_read_of_each_layer_leaves_them_apart(tmp_path: Path) -> None:
    text, _ = text_of(lambda: encoder(named, collect=True), tmp_path)
    assert "ModuleList" not in text


def test_a_weight_of_all_layers_leaves_them_apart(tmp_path: Path) -> None:
    def build() -> Network:
        y = x = fluid.data("x", [None, 8])
        for _ in range(3):
            shared = fluid.ParamAttr(name="shared")
            y = layers.tanh(layers.fc(y, 8, param_attr=shared, act="relu")) + x
        return ["x"], [y], None

    text, converted = text_of(build, tmp_path)
    assert "ModuleList" not in text
    assert sum(one.shape == (8, 8) for one in converted.model.parameters()) == 1
    assert "self.shared_2.weight = self.shared.weight" in text


def test_each_layer_keeps_its_own_values_on_the_way_back(tmp_path: Path) -> None:
    _, converted = text_of(lambda: encoder(named), tmp_path)
    folders.save(converted, tmp_path / "torch")
    folders.back_to_fluid(tmp_path / "torch", tmp_path / "fluid")
    files = sorted((tmp_path / "model").iterdir())
    assert len(files) > 12
    for file in files:
        assert (tmp_path / "fluid" / file.name).read_bytes() == file.read_bytes(), file.name


def test_they_train_alike() -> None:
    def build() -> Network:
        feeds, (out,), _ = encoder(named)
        loss = layers.mean(layers.square(out))
        return feeds, [loss], loss

    ours, theirs, _ = both_trained(build, lambda: fluid.optimizer.SGD(0.1), 4)
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)
    assert torch.isfinite(torch.tensor(theirs)).all()


def test_a_shared_weight_trains_as_one() -> None:
    def build() -> Network:
        x, ids = fluid.data("x", [None, 8]), fluid.data("ids", [None, 1], "int64")
        shared = fluid.ParamAttr(name="shared")
        y = layers.fc(layers.fc(x, 8, param_attr=shared, act="tanh"), 8, param_attr=shared)
        looked_up = layers.embedding(ids, [8, 8], param_attr=shared)
        y = layers.elementwise_add(y, looked_up)
        loss = layers.mean(layers.square(y))
        return ["x", "ids"], [loss], loss

    ours, theirs, _ = both_trained(build, lambda: fluid.optimizer.Momentum(0.1, 0.9), 4)
    np.testing.assert_allclose(theirs, ours, rtol=1e-5)
