"""The gradient operators Fluid 1.8.5 makes, from recorded facts about each operator.

With them a backward pass can be checked whether or not refluid has its operators.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from refluid.ir.operator import Operator
from refluid.ops.registry import GradOp
from tests.golden import GOLDEN

GRAD = "@GRAD"


@cache
def facts() -> dict[str, Any]:
    """Slots, attributes and gradients of Fluid's operators."""
    found: dict[str, Any] = json.loads((GOLDEN / "op_protos.json").read_text())["ops"]
    return found


def recorded_gradients(op: Operator) -> list[GradOp]:
    """The gradient operators that Fluid makes for an operator, by the recorded facts."""
    if op.type in _SECOND:
        return _SECOND[op.type](op)
    made: list[GradOp] = []
    for grad in facts()[op.type]["grads"]:
        inputs = {
            slot: _names(op, sources)
            for slot, sources in grad["inputs"].items()
            if all(_exists(op, source) for source in sources)
        }
        for slot, applies in _EXTRA.get(op.type, {}).items():
            if applies(op):
                inputs[slot] = op.input(slot) + op.output(slot)
        outputs = {slot: _names(op, sources) for slot, sources in grad["outputs"].items()}
        made += _made(op, grad["type"], inputs, outputs)
    return made


# Operators whose gradient operators take over none of the forward operator's attributes.
_BARE: dict[str, Any] = {
    "mean": lambda op: {},
    "reorder_lod_tensor_by_rank": lambda op: {},
    "partial_concat": lambda op: {k: op.attr(k) for k in ("start_index", "length")},
    "index_sample": lambda op: {},
    "top_k": lambda op: {},
    "sum": lambda op: {"scale": 1.0},
    "scale": lambda op: {"scale": op.attr("scale"), "bias": 0.0, "bias_after_scale": True},
    "cast": lambda op: {"in_dtype": op.attr("out_dtype"), "out_dtype": op.attr("in_dtype")},
    "reverse": lambda op: {"axis": op.attr("axis")},
    "increment": lambda op: {"step": -op.attr("step")},
    "assign": lambda op: {},
}
# Inputs that the gradient operator has only with some attributes.
_EXTRA: dict[str, dict[str, Any]] = {
    "sequence_pool": {"MaxIndex": lambda op: op.attr("pooltype") == "MAX"},
    "batch_norm": {
        "Mean": lambda op: op.attr("use_global_stats"),
        "Variance": lambda op: op.attr("use_global_stats"),
    },
}


def _made(
    op: Operator, type: str, inputs: dict[str, list[str]], outputs: dict[str, list[str]]
) -> list[GradOp]:
    attrs = _BARE[op.type](op) if op.type in _BARE else None
    if op.type == "sum":
        return [GradOp(type, inputs, {"Out": [name]}, attrs) for name in outputs["Out"]]
    return [GradOp(type, inputs, outputs, attrs)]


def _exists(op: Operator, source: str) -> bool:
    slot, _, side = source.partition(":")
    return side != "out" or slot in op.outputs


def _names(op: Operator, sources: list[str]) -> list[str]:
    names: list[str] = []
    for source in sources:
        slot, _, side = source.partition(":")
        found = op.input(slot) if side.startswith("in") else op.output(slot)
        names += [name + GRAD if side.endswith(GRAD) else name for name in found]
    return names


def _second(type: str, inputs: dict[str, str], outputs: dict[str, str]) -> Any:
    """A gradient of a gradient operator. `DX: "X+Y"` is made only where `Y@GRAD` is wanted."""

    def make(op: Operator) -> list[GradOp]:
        def names(source: str) -> list[str]:
            slot, _, needs = source.partition("+")
            if needs and not op.output(needs + GRAD):
                return []
            if slot.endswith(GRAD + GRAD):
                return [name + GRAD for name in op.output(slot.removesuffix(GRAD))]
            if slot.startswith("d:"):
                return [name + GRAD for name in op.input(slot[2:])]
            return op.input(slot)

        return [
            GradOp(
                type,
                {slot: names(source) for slot, source in inputs.items()},
                {slot: names(source) for slot, source in outputs.items()},
            )
        ]

    return make


_GG = GRAD + GRAD
_ACTIVATION = ({"DDX": "X" + _GG, "Out": "Out"}, {"DDOut": "d:Out" + GRAD})
_SECOND: dict[str, Any] = {
    "mul_grad": _second(
        "mul_grad_grad",
        {"DDX": "X" + _GG, "DDY": "Y" + _GG, "DOut": "Out" + GRAD, "X": "X", "Y": "Y"},
        {"DDOut": "d:Out" + GRAD, "DX": "d:X+Y", "DY": "d:Y+X"},
    ),
    "conv2d_grad": _second(
        "conv2d_grad_grad",
        {
            "DDInput": "Input" + _GG,
            "DDFilter": "Filter" + _GG,
            "DOutput": "Output" + GRAD,
            "Input": "Input",
            "Filter": "Filter",
        },
        {"DDOutput": "d:Output" + GRAD, "DInput": "d:Input+Filter", "DFilter": "d:Filter+Input"},
    ),
    "elementwise_add_grad": _second(
        "elementwise_add_grad_grad",
        {"DDX": "X" + _GG, "DDY": "Y" + _GG, "DOut": "Out" + GRAD, "Y": "Y"},
        {"DDOut": "d:Out" + GRAD},
    ),
    "relu_grad": _second("relu_grad_grad", *_ACTIVATION),
    "leaky_relu_grad": _second("leaky_relu_grad_grad", *_ACTIVATION),
}
