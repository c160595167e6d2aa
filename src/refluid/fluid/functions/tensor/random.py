"""Random tensors. A seed of 0 is the program's, or a new one each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from refluid.build import op
from refluid.core import names
from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.framework import device_guard
from refluid.fluid.functions.tensor.assignment import cast
from refluid.fluid.functions.tensor.tensor_lists import Sizes, constant_of, free_constant, mixed
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

_SEEDS = 65536


def uniform_random(
    shape: Sizes, dtype: Any = "float32", min: float = -1.0, max: float = 1.0, seed: int = 0
) -> Variable:
    """Uniform in [min, max). `shape` as in `fill_constant`."""
    helper = LayerHelper("uniform_random")
    inputs, sizes = mixed(
        shape, "uniform_random", "ShapeTensor", "ShapeTensorList", constant_of(helper)
    )
    kind = as_dtype(dtype)
    attrs = {"shape": sizes, "seed": seed, "min": min, "max": max, "dtype": int(kind)}
    return op("uniform_random", inputs, attrs, dtype=kind, layer=helper)


def _as_int32(inputs: dict[str, Any]) -> dict[str, Any]:
    def one(var: Variable) -> Variable:
        return cast(var, "int32") if var.dtype == VarType.INT64 else var

    return {
        slot: [one(var) for var in given] if isinstance(given, list) else one(given)
        for slot, given in inputs.items()
    }


def gaussian_random(
    shape: Sizes, mean: float = 0.0, std: float = 1.0, seed: int = 0, dtype: Any = "float32"
) -> Variable:
    """Normal with that mean and standard deviation. `shape` as in `fill_constant`."""
    inputs, sizes = mixed(shape, "gaussian_random", "ShapeTensor", "ShapeTensorList", free_constant)
    kind = as_dtype(dtype)
    attrs = {"shape": sizes, "mean": mean, "std": std, "seed": seed, "dtype": int(kind)}
    return op("gaussian_random", _as_int32(inputs), attrs | {"use_mkldnn": False}, dtype=kind)


def uniform_random_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    dtype: Any = "float32",
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    min: float = -1.0,
    max: float = 1.0,
    seed: int = 0,
) -> Variable:
    """Uniform of `shape`, dimension `output_dim_idx` being `input`'s `input_dim_idx`."""
    attrs = {"min": min, "max": max, "seed": seed}
    own = _like(shape, dtype, input_dim_idx, output_dim_idx)
    return op("uniform_random_batch_size_like", {"Input": input}, attrs | own, dtype=dtype)


def gaussian_random_batch_size_like(
    input: Variable,
    shape: Sequence[int],
    input_dim_idx: int = 0,
    output_dim_idx: int = 0,
    mean: float = 0.0,
    std: float = 1.0,
    seed: int = 0,
    dtype: Any = "float32",
) -> Variable:
    """Normal of `shape`, dimension `output_dim_idx` being `input`'s `input_dim_idx`."""
    attrs = {"mean": mean, "std": std, "seed": seed}
    own = _like(shape, dtype, input_dim_idx, output_dim_idx)
    return op("gaussian_random_batch_size_like", {"Input": input}, attrs | own, dtype=dtype)


def _like(shape: Sequence[int], dtype: Any, source: int, target: int) -> dict[str, Any]:
    return {
        "shape": list(shape),
        "dtype": int(as_dtype(dtype)),
        "input_dim_idx": source,
        "output_dim_idx": target,
    }


def _result(
    helper: LayerHelper, out: Variable | None, name: str | None, dtype: VarType
) -> Variable:
    """Where a random tensor goes: `out`, a variable called `name`, or one of the layer's."""
    if out is not None:
        return out
    if name is not None:
        return helper.create_variable(name=name, dtype=dtype, persistable=False)
    return helper.create_variable_for_type_inference(dtype)


def randint(
    low: int,
    high: int | None = None,
    shape: Sizes | None = None,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = False,
    seed: int = 0,
    name: str | None = None,
) -> Variable:
    """Whole numbers of [low, high), of [0, low) without `high`; int64 unless `dtype` is int32.

    shape: (1,) where None; else as in `fill_constant`. ValueError for an empty range.
    """
    helper = LayerHelper("randint", name=name)
    kind = as_dtype("int64" if dtype is None else dtype)
    if kind not in (VarType.INT32, VarType.INT64):
        raise TypeError(f"randint: dtype must be int32 or int64, not {dtype!r}")
    low, high = (0, low) if high is None else (low, high)
    if low >= high:
        raise ValueError(f"randint: low {low} must be smaller than high {high}")
    sizes = [1] if shape is None else shape
    inputs, known = mixed(sizes, "randint", "ShapeTensor", "ShapeTensorList", constant_of(helper))
    attrs = {
        "shape": None if inputs else known,
        "low": low,
        "high": high,
        "seed": seed,
        "dtype": int(kind),
    }
    made = _result(helper, out, name, kind)
    made.stop_gradient = stop_gradient
    with device_guard(device):
        return op("randint", inputs, attrs, dtype=kind, out=made, layer=helper)


def randn(
    shape: Sizes,
    out: Variable | None = None,
    dtype: Any = None,
    device: str | None = None,
    stop_gradient: bool = True,
    name: str | None = None,
) -> Variable:
    """Standard normal numbers, float32 unless `dtype` says otherwise.

    The program gets a seed that NumPy draws while it is built.
    """
    helper = LayerHelper("randn", name=name)
    kind = as_dtype("float32" if dtype is None else dtype)
    made = _result(helper, out, name, kind)
    inputs, known = mixed(shape, "randn", "ShapeTensor", "ShapeTensorList", constant_of(helper))
    attrs = {
        "shape": known,
        "mean": 0.0,
        "std": 1.0,
        "seed": int(np.random.randint(0, 100)),
        "dtype": int(kind),
        "use_mkldnn": False,
    }
    made.stop_gradient = stop_gradient
    with device_guard(device):
        return op("gaussian_random", inputs or None, attrs, out=made, layer=helper)


def randperm(
    n: int,
    out: Variable | None = None,
    dtype: Any = "int64",
    device: str | None = None,
    stop_gradient: bool = True,
    seed: int = 0,
) -> Variable:
    """0 .. n - 1 in random order. ValueError for n < 1, TypeError unless int32 or int64."""
    if n < 1:
        raise ValueError(f"randperm: n must be at least 1, not {n}")
    kind = as_dtype(dtype)
    if kind not in (VarType.INT32, VarType.INT64):
        raise TypeError(f"randperm: dtype must be int32 or int64, not {dtype!r}")
    helper = LayerHelper("randperm")
    made = _result(helper, out, None, kind)
    made.stop_gradient = stop_gradient
    attrs = {"n": n, "dtype": int(kind), "seed": seed}
    with device_guard(device):
        return op("randperm", {}, attrs, dtype=kind, out=made, layer=helper)


def random_crop(x: Variable, shape: Sequence[int], seed: int | Variable | None = None) -> Variable:
    """A random part of `shape` of each sample; `shape` leaves out the batch dimension.

    seed: of the first run, or an int64 variable; None for one that NumPy draws.
    """
    helper = LayerHelper("random_crop")
    attrs: dict[str, Any] = {"shape": list(shape)}
    if seed is None:
        seed = int(np.random.randint(-_SEEDS, _SEEDS))
    if isinstance(seed, int):
        attrs["startup_seed"] = seed
        seed = helper.create_variable(
            name=names.generate("random_crop_seed"), dtype=VarType.INT64, persistable=True
        )
    elif not isinstance(seed, Variable):
        raise ValueError(f"random_crop: seed must be an int or a Variable, not {seed!r}")
    return op(
        "random_crop", {"X": x, "Seed": seed}, attrs, {"Out": None, "SeedOut": seed}, layer=helper
    )[0]
