"""Dropout."""

from __future__ import annotations

from refluid.build import backend, op
from refluid.core.dtypes import VarType
from refluid.fluid.layer_helper import LayerHelper
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
    Inference is what `is_test` says, and in dygraph what follows `Layer.eval()`.
    """
    infers = is_test or not backend().training
    return drop(x, dropout_prob, infers, seed, name, dropout_implementation)


def drop(
    x: Variable,
    dropout_prob: float,
    is_test: bool,
    seed: int | None = None,
    name: str | None = None,
    dropout_implementation: str = "downgrade_in_infer",
) -> Variable:
    """`dropout` that goes by `is_test` alone."""
    helper = LayerHelper("dropout", name=name)
    seed = seed or helper.main_program.random_seed or seed
    attrs = {
        "dropout_prob": dropout_prob,
        "is_test": is_test,
        "fix_seed": seed is not None,
        "seed": seed or 0,
        "dropout_implementation": dropout_implementation,
    }
    makes = {"Out": x.dtype, "Mask": VarType.UINT8}
    return op("dropout", {"X": [x]}, attrs, makes, stop_gradient=("Mask",), layer=helper)[0]
