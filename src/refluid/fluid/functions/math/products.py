"""Products, norms and the like of vectors and matrices."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.functions.math.elementwise import elementwise_add, elementwise_mul
from refluid.fluid.functions.math.generated import unary
from refluid.fluid.functions.math.matrices import named_result
from refluid.fluid.functions.math.reduction import reduce_sum
from refluid.fluid.functions.math.unary import exp
from refluid.fluid.functions.tensor.assignment import assign
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

_log = unary("log", "Natural logarithm.")


def log1p(x: Variable, out: Variable | None = None, name: str | None = None) -> Variable:
    """log(1 + x), written to `out` if given."""
    return op("log1p", {"X": x}, out=out, name=name)


def logsumexp(
    x: Variable,
    dim: int | list[int] | None = None,
    keepdim: bool = False,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """log(sum(exp(x))) along `dim`, over all of `x` where that is None."""
    total = reduce_sum(exp(x), dim, keepdim)
    if out is None:
        return _log(total, name)
    return op("log", {"X": total}, out=out, layer="logsumexp", name=name)


def clamp(
    input: Variable,
    min: float | Variable | None = None,
    max: float | Variable | None = None,
    output: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """`input` cut to [min, max]; bounds are numbers or variables of shape (1,).

    ValueError where neither bound is given.
    """
    if min is None and max is None:
        raise ValueError("clamp: min or max should be given")
    inputs: dict[str, Any] = {"X": input}
    attrs = {"min": -float("inf"), "max": float("inf")}
    for key, bound in (("min", min), ("max", max)):
        if isinstance(bound, Variable):
            bound.stop_gradient = True
            inputs[key.capitalize()] = bound
        elif bound is not None:
            attrs[key] = bound
    return op("clip", inputs, attrs, out=output, layer="clamp", name=name)


def addmm(
    input: Variable,
    x: Variable,
    y: Variable,
    alpha: float = 1.0,
    beta: float = 1.0,
    name: str | None = None,
) -> Variable:
    """beta * input + alpha * (x · y) for matrices; `input` broadcasts."""
    attrs = {"Alpha": alpha, "Beta": beta}
    return op("addmm", {"Input": input, "X": x, "Y": y}, attrs, dtype=x.dtype, name=name)


def addcmul(
    input: Variable,
    tensor1: Variable,
    tensor2: Variable,
    value: float = 1.0,
    out: Variable | None = None,
    name: str | None = None,
) -> Variable:
    """input + value * tensor1 * tensor2."""
    total = elementwise_add(input, elementwise_mul(tensor1, tensor2) * value)
    if out is None:
        return total
    assign(total, out)
    return out


def bmm(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The products of matrices of a batch: (B, N, K) and (B, K, M) give (B, N, M).

    ValueError for other shapes.
    """
    if len(x.shape) != 3 or len(y.shape) != 3 or x.shape[2] != y.shape[1]:
        raise ValueError(f"bmm: {list(x.shape)} and {list(y.shape)} are no batches to multiply")
    return op("bmm", {"X": x, "Y": y}, name=name)


def dot(x: Variable, y: Variable, name: str | None = None) -> Variable:
    """The product of two vectors, or of each row of two matrices; the last dimension becomes 1."""
    return named_result("dot", name, {"X": x, "Y": y})


def cross(input: Variable, other: Variable, dim: int | None = None) -> Variable:
    """The cross product along `dim`, of size 3; the first such dimension where it is None."""
    return op("cross", {"X": input, "Y": other}, {"dim": dim})


def dist(x: Variable, y: Variable, p: float = 2) -> Variable:
    """The p-norm of x - y, which broadcast; shape (1,)."""
    return op("dist", {"X": [x], "Y": [y]}, {"p": float(p)})


def cos_sim(X: Variable, Y: Variable) -> Variable:
    """The cosine between each row of X, (N, D), and that of Y, (N, D) or (1, D); shape (N, 1)."""
    return op("cos_sim", {"X": [X], "Y": [Y]})


def bilinear_tensor_product(
    x: Variable,
    y: Variable,
    size: int,
    act: str | None = None,
    name: str | None = None,
    param_attr: Any = None,
    bias_attr: Any = None,
) -> Variable:
    """x · W[i] · yᵀ for i = 0 .. size - 1, plus a bias: (N, size) from (N, M) and (N, K)."""
    helper = LayerHelper(
        "bilinear_tensor_product", act=act, name=name, param_attr=param_attr, bias_attr=bias_attr
    )
    shape = [size, x.shape[1], y.shape[1]]
    weight = helper.create_parameter(helper.param_attr, shape, x.dtype)
    inputs = {"X": x, "Y": y, "Weight": weight}
    if helper.bias_attr:
        inputs["Bias"] = helper.create_parameter(helper.bias_attr, [1, size], x.dtype, is_bias=True)
    return helper.append_activation(op("bilinear_tensor_product", inputs, layer=helper))


def allclose(
    input: Variable,
    other: Variable,
    rtol: float = 1e-05,
    atol: float = 1e-08,
    equal_nan: bool = False,
    name: str | None = None,
) -> Variable:
    """Whether all |input - other| <= atol + rtol * |other|; bool of shape (1,)."""
    attrs = {"rtol": rtol, "atol": atol, "equal_nan": equal_nan}
    return op("allclose", {"Input": input, "Other": other}, attrs, dtype=VarType.BOOL, name=name)


def l2_normalize(
    x: Variable, axis: int, epsilon: float = 1e-12, name: str | None = None
) -> Variable:
    """`x` divided by its Euclidean norm along `axis`."""
    axis = 0 if len(x.shape) == 1 else axis
    attrs = {"axis": 1 if axis is None else axis, "epsilon": epsilon}
    return op("norm", {"X": x}, attrs, ("Out", "Norm"), layer="l2_normalize", name=name)[0]
