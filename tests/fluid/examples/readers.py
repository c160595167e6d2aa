"""Readers that are part of a program."""

from __future__ import annotations

from typing import Any

from refluid import fluid
from tests.fluid.examples.feeds import Build

L = fluid.layers
SHAPES, TYPES = [(-1, 1, 28, 28), (-1, 1)], ["float32", "int64"]


def _read(name: str | None = None) -> Any:
    return L.read_file(L.py_reader(64, SHAPES, TYPES, name=name))


def _double_buffer() -> None:
    reader = L.py_reader(64, SHAPES, TYPES, use_double_buffer=False)
    L.read_file(L.double_buffer(reader))


def _classify() -> None:
    image, label = _read()
    predict = L.fc(image, 10, act="softmax")
    loss = L.cross_entropy(predict, label)
    # Fluid's save_inference_model, which the example calls, leaves this behind.
    L.scale(loss, name="save_infer_model/scale_0")


EXAMPLES: dict[str, Build] = {
    "layers.double_buffer-0": _double_buffer,
    "layers.py_reader-0": lambda: L.py_reader(64, SHAPES, TYPES),
    "layers.py_reader-0+dataset+cpu": _classify,
    "layers.py_reader-1": lambda: L.py_reader(64, SHAPES, TYPES, name="train_reader"),
}
