"""What the table of operators is made of."""

from __future__ import annotations

from refluid.ops.registry import find
from scripts.build_docs import gradient_of, lod_of, page
from scripts.operator_layers import layers_by_operator
from scripts.operator_recordings import from_page


def test_layers_are_found_where_they_append() -> None:
    layers = layers_by_operator()
    assert "layers.fc" in layers["mul"]
    assert "layers.relu" in layers["relu"]
    assert "layers.elementwise_add" in layers["elementwise_add"]
    assert "layers.dynamic_lstm" in layers["lstm"]
    assert "layers.While" in layers["while"]
    assert "optimizer.AdamOptimizer" in layers["adam"]
    assert "nets.simple_img_conv_pool" not in layers["conv2d"]


def test_describes_gradient_and_sequences() -> None:
    described = {
        name: (gradient_of(definition), lod_of(definition))
        for name in ("softmax_with_cross_entropy", "sequence_pool", "accuracy", "while")
        if (definition := find(name)) is not None
    }
    assert described["softmax_with_cross_entropy"] == ("hand-written", "")
    assert described["sequence_pool"] == ("hand-written", "takes, makes")
    assert described["accuracy"] == ("none", "")
    assert described["while"] == ("of its block", "")


def test_recorded_cells_survive() -> None:
    recorded = {"relu": ("float32, float64", "7/7"), "mul": ("float32", "1/2")}
    kept = from_page(page(recorded))
    assert kept["relu"] == recorded["relu"] and kept["mul"] == recorded["mul"]
    assert kept["tanh"] == ("", "")
