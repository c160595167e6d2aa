"""Operators of no rows, as detectors that found nothing give them: gradients are empty, or 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ops.running import Array, run_op


def _none(*sizes: int) -> Array:
    return np.zeros((0, *sizes), "float32")


_WEIGHT = np.ones(4, "float32")
_IMAGES = _none(4, 2, 2)
_CASES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("reduce_mean", {"X": _none(4)}, {"reduce_all": True}),
    ("reduce_mean", {"X": _none(4)}, {"dim": [1]}),
    ("kldiv_loss", {"X": _none(4), "Target": _none(4)}, {"reduction": "mean"}),
    ("kldiv_loss", {"X": _none(4), "Target": _none(4)}, {"reduction": "batchmean"}),
    ("expand", {"X": _none(4)}, {"expand_times": [1, 2]}),
    ("expand_as", {"X": _none(4), "target_tensor": _none(8)}, {}),
    ("cos_sim", {"X": _none(4), "Y": _none(4)}, {}),
    ("group_norm", {"X": _IMAGES}, {"groups": 2}),
    ("group_norm", {"X": _IMAGES, "Scale": _WEIGHT, "Bias": _WEIGHT}, {"groups": 2}),
    ("instance_norm", {"X": _IMAGES, "Scale": _WEIGHT, "Bias": _WEIGHT}, {}),
    ("affine_grid", {"Theta": _none(2, 3)}, {"output_shape": [0, 1, 2, 2]}),
]


@pytest.mark.parametrize(("op_type", "inputs", "attrs"), _CASES)
def test_gradients_of_no_rows(op_type: str, inputs: dict[str, Any], attrs: dict[str, Any]) -> None:
    wrt = [slot for slot in inputs if slot not in ("Target", "target_tensor")]
    found = run_op(op_type, inputs, attrs, gradients=wrt)
    for slot in wrt:
        np.testing.assert_array_equal(found[f"{slot}@GRAD"], np.zeros_like(inputs[slot]))


@pytest.mark.parametrize(
    ("op_type", "inputs", "attrs", "shape"),
    [
        ("hash", {"X": np.zeros((0, 2), "int64")}, {"num_hash": 3}, (0, 3, 1)),
        ("squared_l2_distance", {"X": _none(4), "Y": _none(4)}, {}, (0, 1)),
    ],
)
def test_results_of_no_rows(
    op_type: str, inputs: dict[str, Any], attrs: dict[str, Any], shape: tuple[int, ...]
) -> None:
    assert run_op(op_type, inputs, attrs)["Out"].shape == shape
