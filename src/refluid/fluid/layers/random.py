"""Random tensors and dropout. A seed of 0 is the program's, or a new one each run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from refluid.core.dtypes import VarType, as_dtype
from refluid.fluid.layer_helper import LayerHelper
from refluid.fluid.layers.assignment import cast
from refluid.fluid.layers.tensor_lists import Sizes, constant_of, free_constant, mixed
from refluid.ir.variable import Variable


def dropout(
    x: Variable,
    dropout_prob: float,
    is_test: bool = False,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """Sets elements to zero with probability `dropout_prob` in training.

    "downgrade_in_infer": training keeps the others as they are, inference multiplies by
    1 - dropout_prob. "upscale_in_train": training divides by it, inference changes nothing.
    """
    helper = LayerHelper("dropout", name=name)
    seed = seed or helper.main_program.random_seed or seed
    out = helper.create_variable_for_type_inference(x.dtype)
    mask = helper.create_variable_for_type_inference(VarType.UINT8, stop_gradient=True)
    attrs = {
        "dropout_prob": dropout_prob,
        "is_test": is_test,
        "fix_seed": seed is not None,
        "seed": seed or 0,
        "dropout_implementation": dropout_implementation,
    }
    return helper.emit("dropout", {"X": [x]}, attrs, out=out, more={"Mask": [mask]})


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
    return helper.emit("uniform_random", inputs, attrs, dtype=kind)


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
    helper = LayerHelper("gaussian_random")
    inputs, sizes = mixed(shape, "gaussian_random", "ShapeTensor", "ShapeTensorList", free_constant)
    kind = as_dtype(dtype)
    attrs = {"shape": sizes, "mean": mean, "std": std, "seed": seed, "dtype": int(kind)}
    return helper.emit(
        "gaussian_random", _as_int32(inputs), attrs | {"use_mkldnn": False}, dtype=kind
    )


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
    helper = LayerHelper("uniform_random_batch_size_like")
    return helper.emit("uniform_random_batch_size_like", {"Input": input}, attrs | own, dtype=dtype)


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
    helper = LayerHelper("gaussian_random_batch_size_like")
    return helper.emit(
        "gaussian_random_batch_size_like", {"Input": input}, attrs | own, dtype=dtype
    )


def _like(shape: Sequence[int], dtype: Any, source: int, target: int) -> dict[str, Any]:
    return {
        "shape": list(shape),
        "dtype": int(as_dtype(dtype)),
        "input_dim_idx": source,
        "output_dim_idx": target,
    }
