"""Normalisation: batch_norm, inplace_abn, layer_norm, group_norm, spectral_norm, ..."""

from __future__ import annotations

import math
import warnings
from typing import Any

from refluid.build import UNNAMED, How, op
from refluid.core.dtypes import VarType
from refluid.core.former import formerly
from refluid.core.notices import tell_once
from refluid.fluid.initializer import Constant, Normal
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import ParamAttr
from refluid.ir.variable import Variable


@formerly("fuse_with_relu")
def batch_norm(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float | Variable = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    in_place: bool = False,
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
) -> Variable:
    """Batch normalisation over all dimensions but the channel's.

    input: (N, C) or (N, C, ...), (N, ..., C) for "NHWC". Four variables of shape (C,): scale
    (ones), offset (zeros), moving mean and variance, where `moving = moving * momentum + batch *
    (1 - momentum)`. is_test or use_global_stats: normalises by the moving ones.
    A variable as momentum has no effect in Fluid 1.8.5, nor here: a UserWarning says so.
    """
    helper = LayerHelper(
        "batch_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    attrs = {
        "epsilon": epsilon,
        "momentum": _number(momentum),
        "is_test": is_test,
        "data_layout": data_layout,
        "use_mkldnn": False,
        "fuse_with_relu": False,
        "use_global_stats": use_global_stats,
    }
    moving = (moving_mean_name, moving_variance_name)
    out = input if in_place else None
    y = _normalized(helper, input, attrs, moving, do_model_average_for_mean_and_var, out)
    return helper.append_activation(y)


def _number(momentum: float | Variable) -> float | None:
    if not isinstance(momentum, Variable):
        return momentum
    warnings.warn(
        "batch_norm: Fluid 1.8.5 ignores a momentum that is a Variable and uses 0.9, and so does "
        "refluid; give a number",
        stacklevel=3,
    )
    return None


def channels_of(input: Variable, layout: str) -> int:
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"data_layout must be 'NCHW' or 'NHWC', not {layout!r}")
    if len(input.shape) < 2:
        raise IndexError(
            f"{input.name!r} has shape {list(input.shape)} and so no channels: what is normalised "
            "is (N, C) or (N, C, ...), or (N, ..., C) for 'NHWC'"
        )
    return input.shape[1 if layout == "NCHW" else -1]


def _affine(
    helper: LayerHelper, input: Variable, shape: list[int], scale: bool, shift: bool
) -> dict[str, Variable]:
    """The parameters that scale (from one) and shift (from zero) what was normalised."""
    dtype = VarType.FP32 if input.dtype == VarType.FP16 else input.dtype
    inputs: dict[str, Variable] = {}
    if scale:
        one = Constant(1.0)
        weight = helper.create_parameter(helper.param_attr, shape, dtype, default_initializer=one)
        inputs |= {"Scale": weight}
    if shift:
        bias = helper.create_parameter(helper.bias_attr, shape, dtype, is_bias=True)
        inputs |= {"Bias": bias}
    return inputs


def inplace_abn(
    input: Variable,
    act: str | None = None,
    is_test: bool = False,
    momentum: float | Variable = 0.9,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    data_layout: str = "NCHW",
    name: str | None = None,
    moving_mean_name: str | None = None,
    moving_variance_name: str | None = None,
    do_model_average_for_mean_and_var: bool = True,
    use_global_stats: bool = False,
    act_alpha: float = 1.0,
) -> Variable:
    """`batch_norm` and an activation (None, "leaky_relu" or "elu") that overwrite `input`.

    act_alpha: the activation's slope for negative numbers; not 0. ValueError for another `act`.
    """
    if act not in (None, "identity", "leaky_relu", "elu"):
        raise ValueError(f"inplace_abn only support act as None, 'elu', 'leaky_relu', not {act!r}")
    attrs = {
        "epsilon": epsilon,
        "momentum": _number(momentum),
        "is_test": is_test,
        "data_layout": data_layout,
        "use_mkldnn": False,
        "fuse_with_relu": False,
        "use_global_stats": use_global_stats,
        "activation": act or "",
        "alpha": act_alpha,
    }
    helper = LayerHelper("inplace_abn", param_attr=param_attr, bias_attr=bias_attr, name=name)
    moving = (moving_mean_name, moving_variance_name)
    return _normalized(helper, input, attrs, moving, do_model_average_for_mean_and_var, out=input)


def _normalized(
    helper: LayerHelper,
    input: Variable,
    attrs: dict[str, Any],
    moving: tuple[str | None, str | None],
    average: bool,
    out: Variable | None,
) -> Variable:
    """Appends the operator with its four parameters and the statistics it saves."""
    channels = [channels_of(input, attrs["data_layout"])]
    inputs = {"X": input} | _affine(helper, input, channels, True, True)
    for slot, start, own in zip(("Mean", "Variance"), (0.0, 1.0), moving, strict=True):
        attr = ParamAttr(own, Constant(start), trainable=False)
        attr.do_model_average = average
        like = inputs["Scale"]
        inputs[slot] = helper.create_parameter(attr, like.shape, like.dtype, stop_gradient=True)
    return _normalize(helper, inputs, attrs, ("SavedMean", "SavedVariance"), out)


def _normalize(
    helper: LayerHelper,
    inputs: dict[str, Variable],
    attrs: dict[str, Any],
    saved: tuple[str, str],
    out: Variable | None = None,
) -> Variable:
    """Appends the operator, which saves two statistics of the type of its scale."""
    like = inputs.get("Scale", inputs["X"]).dtype
    makes = {**dict.fromkeys(saved, like), "Y": inputs["X"].dtype if out is None else out}
    makes |= {f"{slot}Out": inputs[slot] for slot in ("Mean", "Variance") if slot in inputs}
    return op(helper.layer_type, inputs, attrs, makes, stop_gradient=saved, layer=helper)[2]


def layer_norm(
    input: Variable,
    scale: bool = True,
    shift: bool = True,
    begin_norm_axis: int = 1,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    name: str | None = None,
) -> Variable:
    """Layer normalisation over dimension `begin_norm_axis` and all after it.

    Scale and shift, each over the elements of those dimensions, are left out on request.
    """
    helper = LayerHelper(
        "layer_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    for wanted, attr, what in ((scale, param_attr, "param"), (shift, bias_attr, "bias")):
        if wanted and attr is False:
            raise ValueError(f"layer_norm: {what}_attr is False; leave it out by its flag instead")
    shape = [math.prod(input.shape[begin_norm_axis:])]
    inputs = {"X": input} | _affine(helper, input, shape, scale, shift)
    attrs = {"epsilon": epsilon, "begin_norm_axis": begin_norm_axis}
    return helper.append_activation(_normalize(helper, inputs, attrs, ("Mean", "Variance")))


def instance_norm(
    input: Variable,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    name: str | None = None,
) -> Variable:
    """Normalises each channel of each sample of (N, C, ...) by itself."""
    for what, attr in (("param_attr", param_attr), ("bias_attr", bias_attr)):
        if attr is False:
            raise AssertionError(f"instance_norm: {what} should not be False")
    helper = LayerHelper("instance_norm", param_attr=param_attr, bias_attr=bias_attr, name=name)
    inputs = {"X": input} | _affine(helper, input, [input.shape[1]], True, True)
    return _normalize(helper, inputs, {"epsilon": epsilon}, ("SavedMean", "SavedVariance"))


def group_norm(
    input: Variable,
    groups: int,
    epsilon: float = 1e-05,
    param_attr: Any = None,
    bias_attr: Any = None,
    act: str | None = None,
    data_layout: str = "NCHW",
    name: str | None = None,
) -> Variable:
    """Normalises `groups` groups of channels of each sample; (N, C, ...) or (N, ..., C).

    There is a scale only where param_attr is given, and an offset only where bias_attr is.
    """
    helper = LayerHelper(
        "group_norm", param_attr=param_attr, bias_attr=bias_attr, act=act, name=name
    )
    if param_attr is None or bias_attr is None:
        tell_once(
            "group_norm: as in Fluid 1.8 there is no scale without param_attr and no offset "
            "without bias_attr; give them for parameters that are trained"
        )
    shape = [channels_of(input, data_layout)]
    inputs = {"X": input} | _affine(helper, input, shape, bool(param_attr), bool(bias_attr))
    attrs = {"epsilon": epsilon, "groups": groups, "data_layout": data_layout}
    how: How = {"prefix": UNNAMED, "stop_gradient": ("Mean", "Variance"), "layer": helper}
    made = op("group_norm", inputs, attrs, ("Mean", "Variance", "Y"), **how)
    return helper.append_activation(made[-1])


def spectral_norm(
    weight: Variable,
    dim: int = 0,
    power_iters: int = 1,
    eps: float = 1e-12,
    name: str | None = None,
) -> Variable:
    """`weight` divided by its largest singular value, as a matrix with rows along `dim`.

    Two vectors that `power_iters` rounds of power iteration improve on each run are kept.
    """
    helper = LayerHelper("spectral_norm", name=name)
    rows = weight.shape[dim]
    sizes = {"U": rows, "V": math.prod(weight.shape) // rows}
    inputs = {"Weight": weight}
    for slot, size in sizes.items():
        start = Normal(0.0, 1.0)
        made = helper.create_parameter(ParamAttr(), [size], weight.dtype, default_initializer=start)
        made.stop_gradient = True
        inputs[slot] = made
    attrs = {"dim": dim, "power_iters": power_iters, "eps": eps}
    return op("spectral_norm", inputs, attrs, prefix=UNNAMED)
