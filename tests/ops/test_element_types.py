"""Kinds of elements that operators take: as Fluid's kernels, refused when a program runs."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from refluid import fluid
from refluid.core.errors import EnforceNotMet
from refluid.ops.element_types import ALIKE, KINDS
from refluid.ops.registry import find
from tests.golden import GOLDEN, needs_golden
from tests.ops.running import Array, run_op

PROTOS = json.loads((GOLDEN / "op_protos.json").read_text())["ops"] if GOLDEN.is_dir() else {}
_KIND = {
    **dict.fromkeys(("double", "float", "::paddle::platform::float16"), "floating-point numbers"),
    "bool": "bool",
}


@needs_golden
@pytest.mark.parametrize("op_type", KINDS)
def test_every_kernel_takes_that_kind(op_type: str) -> None:
    kernels = [one for one in PROTOS[op_type]["kernels"] if "MKLDNN" not in one]
    types = [one[1 : one.index("]")] for one in kernels]
    assert {_KIND.get(one, "integers") for one in types} == set(KINDS[op_type])


@pytest.mark.parametrize(
    "op_type, value, says",
    [
        ("erf", np.array([1, 2]), r"data_type\[int64_t\].* floating-point"),
        ("gelu", np.array([1, 2], "int32"), r"data_type\[int\]"),
        ("reduce_all", np.array([1.0]), r"data_type\[double\].* bool"),
        ("reduce_sum", np.array([True]), r"data_type\[bool\].* integers"),
    ],
)
def test_another_kind_is_refused_at_run_time(op_type: str, value: Array, says: str) -> None:
    with pytest.raises(EnforceNotMet, match=f"op {op_type} does not have kernel for {says}"):
        run_op(op_type, {"X": value})


def test_the_result_is_declared_of_the_type_that_was_given() -> None:
    with fluid.program_guard(fluid.Program(), fluid.Program()):
        found = fluid.layers.erf(fluid.data("x", [2], "int64"))
    assert found.dtype == fluid.core.VarDesc.VarType.INT64


def test_operands_of_two_types_are_refused() -> None:
    inputs = {"X": np.ones(2, "float32"), "Y": np.ones(2, "float64")}
    with pytest.raises(EnforceNotMet, match=r"Tensor holds the wrong type.*float64.*float32"):
        run_op("elementwise_add", inputs)


@pytest.mark.parametrize(
    "op_type, scores, label",
    [
        ("cross_entropy2", "X", "Label"),
        ("softmax_with_cross_entropy", "Logits", "Label"),
        ("lookup_table", "W", "Ids"),
    ],
)
def test_labels_are_int64(op_type: str, scores: str, label: str) -> None:
    inputs = {scores: np.full((2, 3), 0.5, "float32"), label: np.zeros((2, 1), "int32")}
    with pytest.raises(EnforceNotMet, match="holds int, but desires to be int64_t"):
        run_op(op_type, inputs)
    run_op(op_type, inputs | {label: np.zeros((2, 1), "int64")})


@pytest.mark.parametrize("op_type, slots", ALIKE.items())
def test_slots_of_one_type_exist(op_type: str, slots: list[str]) -> None:
    definition = find(op_type)
    assert definition is not None
    assert set(slots) <= {slot.name for slot in definition.inputs}


@pytest.mark.parametrize(
    "op_type, inputs",
    [
        ("concat", {"X": [np.ones((1, 2), "float32"), np.ones((1, 2))]}),
        ("sum", {"X": [np.ones(2), np.ones(2, "float32")]}),
        ("less_than", {"X": np.ones(2, "float32"), "Y": np.ones(2)}),
    ],
)
def test_single_and_double_precision_are_not_mixed(op_type: str, inputs: dict[str, Any]) -> None:
    with pytest.raises(EnforceNotMet, match=f"Tensor holds the wrong type.* {op_type} takes"):
        run_op(op_type, inputs)
