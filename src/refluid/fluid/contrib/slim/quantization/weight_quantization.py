"""A trained model whose weights are kept as whole numbers, so that its files are smaller.

Parameters and folders are those that PaddleSlim's `quant_post_only_weight` documents.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from refluid.core.places import CPUPlace
from refluid.core.scope import Scope
from refluid.fluid import io
from refluid.fluid.contrib.slim.quantization.inserting import one_of
from refluid.fluid.executor import Executor, scope_guard
from refluid.ir.operator import Operator
from refluid.ir.program import Program

__all__ = ["WeightQuantization"]

# Where an operator has its weight, and the dimension of the weight's output channels.
_WEIGHTS = {"conv2d": ("Filter", 0), "depthwise_conv2d": ("Filter", 0), "mul": ("Y", 1)}
_WHOLE = {8: "int8", 16: "int16"}


class WeightQuantization:
    """Rounds the weights of a model that `save_inference_model` saved to 8 or 16 bits.

    model_dir, model_filename, params_filename: where it is, as for `load_inference_model`.
    """

    _supported_quantizable_op_type: ClassVar[list[str]] = list(_WEIGHTS)
    _supported_weight_quantize_type: ClassVar[list[str]] = ["channel_wise_abs_max", "abs_max"]

    def __init__(
        self,
        model_dir: str,
        model_filename: str | None = None,
        params_filename: str | None = None,
    ) -> None:
        self._model = model_dir, model_filename, params_filename

    def quantize_weight_to_int(
        self,
        save_model_dir: str,
        save_model_filename: str | None = None,
        save_params_filename: str | None = None,
        quantizable_op_type: Sequence[str] = ["conv2d", "mul"],
        weight_bits: int = 8,
        weight_quantize_type: str = "channel_wise_abs_max",
        generate_test_model: bool = False,
        threshold_rate: float = 0.0,
    ) -> None:
        """Saves the model with whole weights in save_model_dir/quantized_model.

        Its weights are w / scale, rounded; their operators say `quantize_weight_bits` and
        `NAME_quant_scale`, a scale for each output channel or one for all. Paddle-Lite reads it,
        Fluid doesn't. generate_test_model: in save_model_dir/test_model are the same weights in
        floating point again, which any executor runs. threshold_rate: the share of the numbers of
        greatest magnitude that may be cut, so that steps between the others are smaller.
        """
        for type in quantizable_op_type:
            one_of("quantizable_op_type", type, self._supported_quantizable_op_type)
        one_of("weight_quantize_type", weight_quantize_type, self._supported_weight_quantize_type)
        if weight_bits not in _WHOLE:
            raise ValueError(f"weight_bits must be 8 or 16, not {weight_bits}")
        saved = save_model_filename, save_params_filename
        rule = weight_bits, weight_quantize_type != "abs_max", threshold_rate
        folders = {"quantized_model": True} | ({"test_model": False} if generate_test_model else {})
        for folder, whole in folders.items():
            made = os.path.join(save_model_dir, folder)
            self._save(made, saved, list(quantizable_op_type), rule, whole=whole)

    def _save(
        self,
        folder: str,
        files: tuple[str | None, str | None],
        types: list[str],
        rule: tuple[int, bool, float],
        *,
        whole: bool,
    ) -> None:
        """The model anew, with weights that are whole numbers or what they stand for."""
        executor, scope = Executor(CPUPlace()), Scope()
        with scope_guard(scope):
            program, feeds, fetches = io.load_inference_model(
                self._model[0], executor, self._model[1], self._model[2]
            )
            done: dict[str, Any] = {}
            for op in _weighted(program, types):
                name, scales = _rounded(op, scope, rule, done, whole=whole)
                if whole:
                    op._set_attr("quantize_weight_bits", rule[0])
                    op._set_attr(f"{name}_quant_scale", scales.tolist())
            io.save_inference_model(folder, feeds, fetches, executor, program, *files)


def _weighted(program: Program, types: list[str]) -> list[Operator]:
    """The operators of these types whose weight the model keeps."""
    found = [op for block in program.blocks for op in block.ops if op.type in types]
    return [op for op in found if op.block._var_recursive(_weight(op)).persistable]


def _weight(op: Operator) -> str:
    (name,) = op.input(_WEIGHTS[op.type][0])
    return name


def _rounded(
    op: Operator,
    scope: Scope,
    rule: tuple[int, bool, float],
    done: dict[str, Any],
    *,
    whole: bool,
) -> tuple[str, Any]:
    """Sets the weight of an operator; its name and scales. done: of those that are set already."""
    name, (bits, by_channel, cut) = _weight(op), rule
    if name not in done:
        tensor = scope.var(name).get_tensor()
        value = np.array(tensor)
        axis = _WEIGHTS[op.type][1] if by_channel else None
        tops = _greatest(np.abs(value), axis, cut)
        scales = tops / (2 ** (bits - 1) - 1)
        numbers = np.rint(np.clip(value, -tops, tops) / np.where(scales, scales, 1))
        kept = numbers.astype(_WHOLE[bits]) if whole else (numbers * scales).astype(value.dtype)
        tensor.set(kept, CPUPlace())
        op.block._var_recursive(name).dtype = str(kept.dtype)
        done[name] = scales.reshape(-1)
    return name, done[name]


def _greatest(sizes: Any, axis: int | None, cut: float) -> Any:
    """The greatest magnitudes that are kept, in a shape that goes with the weight's.

    sizes: magnitudes. cut: the share of all of them that may be greater.
    """
    others = tuple(n for n in range(sizes.ndim) if n != axis)
    tops = sizes.max(others, keepdims=True)
    if not cut:
        return tops
    return np.minimum(tops, np.quantile(sizes, 1 - cut, method="higher"))
