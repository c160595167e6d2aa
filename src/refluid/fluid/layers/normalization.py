"""Normalisation: batch_norm, inplace_abn, layer_norm, group_norm, spectral_norm, lrn, ..."""

from __future__ import annotations

import math
import warnings
from typing import Any

from refluid.core.dtypes import VarType
from refluid.core.notices import tell_once
from refluid.fluid.initializer import Constant, Normal
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.param_attr import ParamAttr
from refluid.ir.variable import Variable


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


def _channels(input: Variable, layout: str) -> int:
    if layout not in ("NCHW", "NHWC"):
        raise ValueError(f"data_layout must be 'NCHW' or 'NHWC', not {layout!r}")
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


def _statistics(helper: LayerHelper, dtype: VarType, *slots: str) -> dict[str, Variable]:
    return {slot: helper.create_variable_for_type_inference(dtype, True) for slot in slots}


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
    channels = [_channels(input, attrs["data_layout"])]
    inputs = {"X": input} | _affine(helper, input, channels, True, True)
    for slot, start, own in zip(("Mean", "Variance"), (0.0, 1.0), moving, strict=True):
        attr = ParamAttr(own, Constant(start), trainable=False)
        attr.do_model_average = average
        like = inputs["Scale"]
        inputs[slot] = helper.create_parameter(attr, like.shape, like.dtype, stop_gradient=True)
    saved = _statistics(helper, inputs["Scale"].dtype, "SavedMean", "SavedVariance")
    more = {"MeanOut": inputs["Mean"], "VarianceOut": inputs["Variance"], **saved}
    return helper.emit(
        helper.layer_type, inputs, attrs, slot="Y", dtype=input.dtype, out=out, more=more
    )


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
    more = _statistics(helper, input.dtype, "Mean", "Variance")
    attrs = {"epsilon": epsilon, "begin_norm_axis": begin_norm_axis}
    out = helper.emit("layer_norm", inputs, attrs, slot="Y", dtype=input.dtype, more=more)
    return helper.append_activation(out)


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
    more = _statistics(helper, inputs["Scale"].dtype, "SavedMean", "SavedVariance")
    attrs = {"epsilon": epsilon}
    return helper.emit("instance_norm", inputs, attrs, slot="Y", dtype=input.dtype, more=more)


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
    shape = [_channels(input, data_layout)]
    inputs = {"X": input} | _affine(helper, input, shape, bool(param_attr), bool(bias_attr))
    mean, variance = (
        helper.create_variable(dtype=input.dtype, stop_gradient=True) for _ in range(2)
    )
    out = helper.create_variable(dtype=input.dtype)
    attrs = {"epsilon": epsilon, "groups": groups, "data_layout": data_layout}
    more = {"Mean": mean, "Variance": variance}
    helper.emit("group_norm", inputs, attrs, slot="Y", out=out, more=more)
    return helper.append_activation(out)


def l2_normalize(
    x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None
) -> Variable:
    """`x` divided by its Euclidean norm along `axis`."""
    helper = LayerHelper("l2_normalize", name=name)
    axis = 0 if len(x.shape) == 1 else axis
    out = helper.create_variable_for_type_inference(x.dtype)
    norm = helper.create_variable_for_type_inference(x.dtype)
    attrs = {"axis": 1 if axis is None else axis, "epsilon": epsilon}
    return helper.emit("norm", {"X": x}, attrs, out=out, more={"Norm": norm})


def lrn(
    input: Variable,
    n: int = 5,
    k: float = 1.0,
    alpha: float = 1e-4,
    beta: float = 0.75,
    name: str | None = None,
    data_format: str = "NCHW",
) -> Variable:
    """Local response normalisation over `n` neighbouring channels of (N, C, H, W).

    ValueError for an input of other than four dimensions or an unknown layout.
    """
    helper = LayerHelper("lrn", name=name)
    if len(input.shape) != 4:
        raise ValueError(f"lrn takes 4 dimensions; {input.name} has shape {list(input.shape)}")
    _channels(input, data_format)
    middle = helper.create_variable_for_type_inference(input.dtype, stop_gradient=True)
    attrs = {"n": n, "k": k, "alpha": alpha, "beta": beta, "data_format": data_format}
    return helper.emit("lrn", {"X": input}, attrs, more={"MidOut": middle})


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
    out = helper.create_variable(dtype=weight.dtype)
    attrs = {"dim": dim, "power_iters": power_iters, "eps": eps}
    return helper.emit("spectral_norm", inputs, attrs, out=out)
