"""Every operator has the slots, attributes and defaults of Fluid's own."""

import json

import numpy as np
import pytest

import refluid.ops  # noqa: F401
from refluid.ir.attributes import COMMON, AttrType
from refluid.ops.registry import GRAD, OperatorDef, operators
from tests.golden import GOLDEN, needs_golden

RECORDED = json.loads((GOLDEN / "op_types.json").read_text()) if GOLDEN.is_dir() else {}
PROTOS = json.loads((GOLDEN / "op_protos.json").read_text())["ops"] if GOLDEN.is_dir() else {}
# The protos and recordings are those of a Fluid without CUDA.
_CUDA_ONLY = {"dgc"}
# What replicas of one process do, and fusions, which Fluid 1.8 has no CPU operators for;
# softmax_loss is dygraph's, pause is where a program that takes gradients hands out results, and
# lookup_rows is of models whose tables no process has whole.
_OWN = {
    kind + suffix
    for kind in (
        "adam_by_tiles",
        "check_finite_and_unscale",
        "check_product",
        "chosen_all_reduce",
        "replica_broadcast",
        "fused_all_reduce",
        "fused_batch_norm_act",
        "fused_bn_add_activation",
        "fused_gemm_epilogue",
        "lookup_rows",
        "mixed_gemm",
        "momentum_by_tiles",
        "pause",
        "replica_barrier",
        "sgd_by_tiles",
        "shard_gather",
        "shard_reduce",
        "shard_spread",
        "softmax_loss",
        "sync_batch_norm",
        "update_loss_scaling",
    )
    for suffix in ("", "_grad")
}
# Where the operators are that Paddle 2 has beside Fluid's.
_OF_PADDLE_2 = {
    "comm.parts",
    "detection.counted",
    "loss.ways",
    "math.accumulating",
    "math.decomposing",
    "math.frequencies",
    "math.pairs",
    "math.solving",
    "math.special",
    "math.statistics",
    "nn.grids",
    "nn.head_attention",
    "optimizer.corrected",
    "rnn.stacked",
    "tensor.complexes",
    "tensor.diagonals",
    "tensor.drawing",
    "tensor.segments",
    "tensor.spreading",
    "tensor.writing",
}
FORWARD = [definition for definition in operators() if definition.type in PROTOS]


def test_every_operator_is_one_of_fluids_or_a_gradient() -> None:
    gradients = {
        grad["type"]
        for proto in PROTOS.values()
        if isinstance(proto["grads"], list)
        for grad in proto["grads"]
    }
    types = {
        one.type
        for one in operators()
        if not one.type.endswith("_grad_grad") and not _is_of_paddle_2(one)
    }
    strangers = types - PROTOS.keys() - gradients - RECORDED.keys()
    assert strangers <= _CUDA_ONLY | _OWN or not PROTOS


def _is_of_paddle_2(one: OperatorDef) -> bool:
    forward = one if one.forward is None else one.forward
    body = one.body or forward.body
    return getattr(body, "__module__", "").removeprefix("refluid.ops.") in _OF_PADDLE_2


@needs_golden
@pytest.mark.parametrize("definition", FORWARD, ids=lambda one: one.type)
def test_slots(definition: OperatorDef) -> None:
    proto = PROTOS[definition.type]
    for own, theirs in ((definition.inputs, "inputs"), (definition.outputs, "outputs")):
        expected = {slot["name"]: slot.get("duplicable", False) for slot in proto[theirs]}
        assert {slot.name: slot.many for slot in own} == expected


@needs_golden
@pytest.mark.parametrize("definition", FORWARD, ids=lambda one: one.type)
def test_attributes(definition: OperatorDef) -> None:
    expected = {
        attr["name"]: attr
        for attr in PROTOS[definition.type]["attrs"]
        if attr["name"] not in COMMON
    }
    found = {k: v for k, v in definition.attributes.items() if not v.inner}
    assert set(found) == set(expected)
    for name, attribute in found.items():
        assert attribute.kind == AttrType[expected[name]["type"]], name
        if "default" in expected[name]:
            default = (
                np.float32(1) * attribute.default
                if isinstance(attribute.default, float)
                else attribute.default
            )
            assert default == pytest.approx(expected[name]["default"]), name
        else:
            assert attribute.required, name


@needs_golden
@pytest.mark.parametrize("definition", FORWARD, ids=lambda one: one.type)
def test_gradient_slots(definition: OperatorDef) -> None:
    grads = PROTOS[definition.type]["grads"]
    if not isinstance(grads, list):
        pytest.skip("Fluid's own gradient operator could not be recorded")
    if not grads:
        assert definition.uses is None or definition.maker is not None
        return
    if definition.maker is not None:
        return
    (grad,) = grads
    assert definition.uses is not None
    derived = next(one for one in operators() if one.type == grad["type"])
    optional = {slot.name for slot in definition.inputs + definition.outputs if slot.optional}
    own = {slot.name for slot in derived.inputs}
    assert own - optional <= set(grad["inputs"])
    assert set(grad["inputs"]) <= own
    assert {slot.name.removesuffix(GRAD) for slot in derived.outputs} - optional <= {
        name.removesuffix(GRAD) for name in grad["outputs"]
    }
    assert set(grad["outputs"]) <= {slot.name for slot in derived.outputs}
