"""Layers for click-through models: continuous_value_model, data_norm, tags and hashes."""

from __future__ import annotations

from typing import Any

from refluid.build import UNNAMED, How, op
from refluid.core.dtypes import VarType
from refluid.core.notices import tell_once
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import ParamAttr
from refluid.ir.variable import Variable

_SUMS = {"batch_size": 1e4, "batch_sum": 0.0, "batch_square": 1e4}
_SLOTS = {
    "BatchSize": ("batch_size", "batch_size"),
    "BatchSum": ("batch_sum", "batch_sum"),
    "BatchSquareSum": ("batch_square_sum", "batch_square"),
}


def continuous_value_model(input: Variable, cvm: Variable, use_cvm: bool = True) -> Variable:
    """Embeddings (N, 2 + D) that begin with show and click, those taken as logarithms.

    cvm: show and click of each instance, (N, 2). Without `use_cvm` the two columns are left out.
    """
    inputs = {"X": [input], "CVM": [cvm]}
    return op("cvm", inputs, {"use_cvm": use_cvm})


def _look_at(name: str | None, enable_scale_and_shift: bool, param_attr: Any) -> None:
    """Says what `data_norm` makes of its arguments; AttributeError where a dict is missing."""
    if name is None:
        tell_once(
            "data_norm: as in Fluid 1.8 the parameters of all data_norm layers without a name are "
            "dn.batch_size, dn.batch_sum and dn.batch_square_sum, which they share; give names"
        )
    if enable_scale_and_shift and not isinstance(param_attr, dict):
        raise AttributeError(
            "data_norm: enable_scale_and_shift needs param_attr, a dict with the first values "
            f"of scale_w and bias, not {param_attr!r}"
        )


def data_norm(
    input: Variable,
    act: str | None = None,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    slot_dim: int = -1,
    sync_stats: bool = False,
    summary_decay_rate: float = 0.9999999,
    enable_scale_and_shift: bool = False,
) -> Variable:
    """Normalises the columns of (N, C) by sums over all data seen so far, `NAME.batch_sum` etc.

    param_attr: a dict of first values: `batch_size` (1e4), `batch_sum` (0), `batch_square`
    (1e4), and `scale_w` (1) and `bias` (0) of enable_scale_and_shift. slot_dim: width of slots
    that begin with a show count; those that were never shown give 0.
    """
    helper = LayerHelper("data_norm", name=name, act=act)
    _look_at(name, enable_scale_and_shift, param_attr)
    channels = [input.shape[1 if data_layout == "NCHW" else -1]]
    first = dict(_SUMS) | {"scale_w": 1.0, "bias": 0.0}
    first |= param_attr if isinstance(param_attr, dict) else {}
    attrs: dict[str, Any] = {
        "epsilon": epsilon,
        "slot_dim": slot_dim,
        "sync_stats": sync_stats,
        "summary_decay_rate": summary_decay_rate,
    }

    def parameter(suffix: str, value: float) -> Variable:
        attr = ParamAttr(f"{name or 'dn'}.{suffix}", Constant(float(value)), trainable=True)
        made: Variable = helper.create_parameter(attr, channels, input.dtype)
        return made

    inputs = {"X": input}
    inputs |= {slot: parameter(name, first[key]) for slot, (name, key) in _SLOTS.items()}
    if enable_scale_and_shift:
        attrs["enable_scale_and_shift"] = True
        inputs |= {slot: parameter(slot, first[slot]) for slot in ("scale_w", "bias")}
    makes = {"Means": None, "Scales": None, "Y": input if in_place else None}
    how: How = {"prefix": UNNAMED, "stop_gradient": ("Means", "Scales"), "layer": helper}
    return helper.append_activation(op("data_norm", inputs, attrs, makes, **how)[-1])


def filter_by_instag(
    ins: Variable,
    ins_tag: Variable,
    filter_tag: Variable,
    is_lod: bool,
    out_val_if_empty: int = 0,
) -> list[Variable]:
    """The instances that carry one of the tags `filter_tag`, and their weights in the loss.

    ins: rows, or sequences with is_lod; ins_tag: int64 tags of each; filter_tag: int64. Where no
    instance is left, one row of out_val_if_empty with weight 0.
    """
    inputs = {"Ins": ins, "Ins_tag": ins_tag, "Filter_tag": filter_tag}
    makes = {"Out": ins.dtype, "LossWeight": VarType.FP64, "IndexMap": ins_tag.dtype}
    attrs = {"is_lod": is_lod, "out_val_if_empty": out_val_if_empty}
    return list(op("filter_by_instag", inputs, attrs, makes)[:2])


def hash(input: Variable, hash_size: int, num_hash: int = 1, name: str | None = None) -> Variable:
    """`num_hash` hashes below `hash_size` of each row of whole numbers: (N, num_hash, 1)."""
    attrs = {"num_hash": num_hash, "mod_by": hash_size}
    return op("hash", {"X": input}, attrs, stop_gradient=True, name=name)
