"""Random numbers."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.functions.tensor import random as fluid
from refluid.fluid.functions.tensor.tensor_lists import free_constant, mixed
from refluid.ir.variable import Variable
from refluid.paddle.framework.dtypes import usual
from refluid.paddle.tensor.making import as_variable, cast_to, rank_of


def _drawn(op_type: str, shape: Any, dtype: Any, attrs: dict[str, Any]) -> Variable:
    sizes = shape if isinstance(shape, Variable) else list(shape)
    inputs, numbers = mixed(sizes, op_type, "ShapeTensor", "ShapeTensorList", free_constant)
    kind = usual(dtype)
    given = attrs | {"shape": numbers, "dtype": int(kind)}
    return op(op_type, inputs, given, dtype=kind, stop_gradient=True)


def uniform(
    shape: Any,
    dtype: Any = None,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Uniform numbers of [min, max)."""
    attrs = {"min": float(min), "max": float(max), "seed": seed}
    return _drawn("uniform_random", shape, dtype, attrs)


def rand(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Uniform numbers of [0, 1)."""
    return uniform(shape, dtype, 0.0, 1.0)


def standard_normal(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Normal numbers of mean 0 and deviation 1."""
    return _drawn("gaussian_random", shape, dtype, {"mean": 0.0, "std": 1.0, "seed": 0})


def randn(shape: Any, dtype: Any = None, name: str | None = None) -> Variable:
    """Normal numbers of mean 0 and deviation 1."""
    return standard_normal(shape, dtype)


def normal(mean: Any = 0.0, std: Any = 1.0, shape: Any = None, name: str | None = None) -> Variable:
    """Normal numbers; of variables as mean or deviation, of their shape."""
    of = next((one for one in (mean, std) if isinstance(one, Variable)), None)
    if of is None:
        attrs = {"mean": float(mean), "std": float(std), "seed": 0}
        return _drawn("gaussian_random", [1] if shape is None else shape, None, attrs)
    zeros = op("fill_any_like", {"X": of}, {"value": 0.0, "dtype": int(of.dtype)}, dtype=of.dtype)
    drawn = _drawn(
        "gaussian_random",
        op("shape", {"Input": zeros}, dtype=VarType.INT32),
        of.dtype,
        {"mean": 0.0, "std": 1.0, "seed": 0},
    )
    drawn = op("elementwise_mul", {"X": drawn, "Y": as_variable(_wide(std))})
    return op("elementwise_add", {"X": drawn, "Y": as_variable(_wide(mean))})


def _wide(value: Any) -> Any:
    return value if isinstance(value, Variable) else [float(value)]


def randint(
    low: int = 0,
    high: int | None = None,
    shape: Any = (1,),
    dtype: Any = None,
    name: str | None = None,
) -> Variable:
    """Whole numbers of [low, high), or of [0, low) without a `high`."""
    if high is None:
        low, high = 0, low
    kind = VarType.INT64 if dtype is None else as_dtype(dtype)
    sizes = shape if isinstance(shape, Variable) else list(shape)
    return fluid.randint(low, high, sizes, dtype=kind)


def randint_like(
    x: Variable, low: int = 0, high: int | None = None, dtype: Any = None, name: str | None = None
) -> Variable:
    """Whole numbers of [low, high), as many as x has elements, and of its type."""
    kind = as_dtype(x.dtype if dtype is None else dtype)
    shape = op("shape", {"Input": x}, dtype=VarType.INT32)
    return cast_to(randint(low, high, shape), kind)


def randperm(n: int, dtype: Any = "int64", name: str | None = None) -> Variable:
    """The numbers from 0 up to n in a random order."""
    return fluid.randperm(n, dtype=dtype)


def bernoulli(x: Variable, name: str | None = None) -> Variable:
    """1 with the probability x, else 0."""
    return op("bernoulli", {"X": x}, name=name, stop_gradient=True)


def poisson(x: Variable, name: str | None = None) -> Variable:
    """Numbers of Poisson distributions with the rates x."""
    return op("poisson", {"X": x}, name=name, stop_gradient=True)


def multinomial(
    x: Variable, num_samples: int = 1, replacement: bool = False, name: str | None = None
) -> Variable:
    """Positions drawn with probabilities in proportion to (categories,) or rows of them, int64."""
    if rank_of(x) not in (1, 2):
        raise ValueError("multinomial takes one row of probabilities, or a matrix of rows")
    attrs = {"num_samples": num_samples, "replacement": replacement}
    return op("multinomial", {"X": x}, attrs, dtype=VarType.INT64, name=name, stop_gradient=True)
