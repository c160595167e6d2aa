"""Losses over many classes of which only some are looked at, and drawing from distributions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from refluid.build import How, check_variables, op
from refluid.core.dtypes import VarType
from refluid.fluid.initializer import NumpyArrayInitializer
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import ParamAttr
from refluid.ir.variable import Variable

_SAMPLERS = {"uniform": 0, "log_uniform": 1, "custom_dist": 2}


def alias_table(probabilities: Sequence[float]) -> tuple[list[int], list[float]]:
    """For drawing by the alias method: of each class its alias (-1: none), and how often it stays.

    A class is drawn evenly; it stays with its probability here, else its alias is taken.
    """
    count = len(probabilities)
    alias, stay = [-1] * count, [1.0] * count
    scaled = [(place, one * count) for place, one in enumerate(probabilities)]
    large = [pair for pair in scaled if pair[1] > 1.0]
    small = [pair for pair in scaled if pair[1] < 1.0]
    while large and small:
        (big, mass), (little, share) = large.pop(0), small.pop(0)
        alias[little], stay[little] = big, share
        left = mass + share - 1.0
        if left > 1.0:
            large.append((big, left))
        elif left < 1.0:
            small.append((big, left))
    return alias, stay


def _constant(helper: LayerHelper, values: Any, dtype: str) -> Any:
    array = np.asarray(values).astype(dtype)
    return helper.create_parameter(
        ParamAttr(),
        array.shape,
        array.dtype,
        default_initializer=NumpyArrayInitializer(array),
        stop_gradient=True,
    )


def over_samples(loss: Variable, attrs: Mapping[str, Any]) -> Variable:
    """The loss divided by how many classes were looked at for each row."""
    averaged: Variable = loss / (attrs["num_neg_samples"] + 1)
    return averaged


def distribution_tables(helper: Any, probabilities: Sequence[float]) -> dict[str, Any]:
    """What the operator needs to draw classes by given probabilities."""
    alias, stay = alias_table(probabilities)
    return {
        "CustomDistProbs": _constant(helper, probabilities, "float32"),
        "CustomDistAlias": _constant(helper, alias, "int32"),
        "CustomDistAliasProbs": _constant(helper, stay, "float32"),
    }


def check_sampler(sampler: str, custom_dist: Sequence[float] | None) -> None:
    """ValueError for a sampler that there isn't, or without what it needs."""
    if sampler not in _SAMPLERS:
        raise ValueError(f"nce: sampler {sampler!r} is none of {', '.join(_SAMPLERS)}")
    if sampler == "custom_dist" and custom_dist is None:
        raise ValueError("nce: sampler 'custom_dist' needs the probabilities custom_dist")


def nce(
    input: Variable,
    label: Variable,
    num_total_classes: int,
    sample_weight: Variable | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
    num_neg_samples: int | None = None,
    name: str | None = None,
    sampler: str = "uniform",
    custom_dist: Sequence[float] | None = None,
    seed: int = 0,
    is_sparse: bool = False,
) -> Variable:
    """Noise-contrastive loss per row, (batch, 1), divided by the number of classes looked at.

    input: (batch, width); label: int64 (batch, true classes). num_neg_samples (10) classes are
    drawn per row by `sampler`: uniform, log_uniform or custom_dist with probabilities
    `custom_dist`. Parameters: (num_total_classes, width), and the bias (num_total_classes, 1).
    """
    check_sampler(sampler, custom_dist)
    helper = LayerHelper("nce", param_attr=param_attr, bias_attr=bias_attr, name=name)
    check_variables("nce", {"input": input, "label": label})
    shape = [num_total_classes, input.shape[1]]
    weight = helper.create_parameter(helper.param_attr, shape, input.dtype)
    inputs = {"Input": input, "Label": label, "Weight": weight}
    bias = helper.create_parameter(
        helper.bias_attr, [num_total_classes, 1], input.dtype, is_bias=True
    )
    inputs |= {"Bias": bias, "SampleWeight": [] if sample_weight is None else sample_weight}
    if custom_dist is not None and sampler == "custom_dist":
        inputs |= distribution_tables(helper, custom_dist)
    attrs = nce_attributes(num_total_classes, num_neg_samples, sampler, seed, is_sparse)
    makes = {"Cost": None, "SampleLogits": None, "SampleLabels": label.dtype}
    return over_samples(op("nce", inputs, attrs, makes, layer=helper)[0], attrs)


def nce_attributes(
    num_total_classes: int, num_neg_samples: int | None, sampler: str, seed: int, is_sparse: bool
) -> dict[str, Any]:
    """The attributes of `nce`."""
    return {
        "num_total_classes": int(num_total_classes),
        "num_neg_samples": 10 if num_neg_samples is None else int(num_neg_samples),
        "seed": seed,
        "sampler": _SAMPLERS[sampler],
        "is_sparse": is_sparse,
        "remote_prefetch": is_sparse,
    }


def hsigmoid(
    input: Variable,
    label: Variable,
    num_classes: int,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
    path_table: Variable | None = None,
    path_code: Variable | None = None,
    is_custom: bool = False,
    is_sparse: bool = False,
) -> Variable:
    """Hierarchical sigmoid loss per row, (batch, 1): the cost of finding a class in a binary tree.

    input: (batch, width); label: int64 (batch, 1). is_custom: the tree is one's own, with the
    nodes (path_table) and turns (path_code) to each row's class, and num_classes inner nodes.
    """
    _check_tree(num_classes, path_table, path_code, is_custom)
    helper = LayerHelper(
        "hierarchical_sigmoid", param_attr=param_attr, bias_attr=bias_attr, name=name
    )
    check_variables("hsigmoid", {"input": input, "label": label})
    nodes = num_classes if is_custom else num_classes - 1
    weight = helper.create_parameter(helper.param_attr, [nodes, input.shape[1]], input.dtype)
    inputs = {"X": input, "W": weight, "Label": label}
    inputs["PathTable"] = [] if path_table is None else path_table
    inputs["PathCode"] = [] if path_code is None else path_code
    bias = helper.create_parameter(helper.bias_attr, [nodes, 1], input.dtype, is_bias=True)
    inputs["Bias"] = bias
    attrs = {"num_classes": num_classes, "is_sparse": is_sparse, "remote_prefetch": is_sparse}
    makes = {"Out": None, "PreOut": None, "W_Out": weight}
    out: Variable = op("hierarchical_sigmoid", inputs, attrs, makes, layer=helper)[0]
    return out


def _check_tree(
    classes: int | None, table: Variable | None, code: Variable | None, custom: bool
) -> None:
    if not custom and (classes is None or classes < 2):
        raise ValueError("num_classes must not be less than 2 with default tree")
    if not custom and (table is not None or code is not None):
        raise ValueError("only num_classes should be passed without custom tree")
    if custom and code is None:
        raise ValueError("path_code should not be None with custom tree")
    if custom and table is None:
        raise ValueError("path_table should not be None with custom tree")
    if custom and classes is None:
        raise ValueError("num_classes should not be None with custom tree")


def sampled_softmax_with_cross_entropy(
    logits: Variable,
    label: Variable,
    num_samples: int,
    num_true: int = 1,
    remove_accidental_hits: bool = True,
    use_customized_samples: bool = False,
    customized_samples: Variable | None = None,
    customized_probabilities: Variable | None = None,
    seed: int = 0,
) -> Variable:
    """Softmax loss per row, (batch, 1), over the true classes and num_samples drawn ones.

    logits: (batch, classes); label: int64 (batch, num_true). customized_samples and their
    probabilities, (batch, num_true + num_samples), are taken where use_customized_samples.
    """
    helper = LayerHelper("sample_logits")
    inputs: dict[str, Any] = {"Logits": logits, "Labels": label}
    if use_customized_samples:
        inputs["CustomizedSamples"] = customized_samples
        inputs["CustomizedProbabilities"] = customized_probabilities
    check_variables("sampled_softmax_with_cross_entropy", inputs)
    kinds = {
        "Samples": VarType.INT64,
        "Probabilities": logits.dtype,
        "SampledLogits": logits.dtype,
        "SampledLabels": VarType.INT64,
        "Soft": VarType.FP32,
        "LogitsDim": logits.dtype,
        "LabelsDim": label.dtype,
    }
    attrs = {
        "use_customized_samples": use_customized_samples,
        "uniq": True,
        "remove_accidental_hits": remove_accidental_hits,
        "num_samples": num_samples,
        "seed": seed,
    }
    made = {slot: helper.create_variable_for_type_inference(kind) for slot, kind in kinds.items()}
    soft = made.pop("Soft")
    op("sample_logits", inputs, attrs, made, layer=helper)
    op("one_hot", {"X": made["SampledLabels"]}, {"depth": num_samples + 1}, out=soft, layer=helper)
    inputs = {"Logits": made["SampledLogits"], "Label": soft}
    attrs = {"soft_label": True, "ignore_index": 0, "numeric_stable_mode": False}
    how: How = {"dtype": logits.dtype, "layer": helper}
    loss, _ = op("softmax_with_cross_entropy", inputs, attrs, ("Loss", "Softmax"), **how)
    averaged: Variable = loss / num_true
    return averaged


def sampling_id(
    x: Variable, min: float = 0.0, max: float = 1.0, seed: int = 0, dtype: Any = "float32"
) -> Variable:
    """One id for each row of the probabilities `x` (batch, ids), drawn at random: (batch,)."""
    attrs = {"min": min, "max": max, "seed": seed}
    return op("sampling_id", {"X": x}, attrs, dtype=dtype)
