"""ctr_metric_bundle: sums from which the metrics of click-through models follow."""

from __future__ import annotations

from typing import Any

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable

__all__ = ["ctr_metric_bundle"]

# The order in which the startup program learns of them: totals, and sums of one batch.
_FIRST_VALUES = (0, 10, 1, 11, 2, 9, 3, 12, 13, 14, 4, 5)


def ctr_metric_bundle(input: Variable, label: Variable) -> tuple[Variable, ...]:
    """Sums over all batches: squared error, absolute error, prediction, q, positives, instances.

    input: probabilities (N, 1); label: clicks (N, 1). Each is float32 (1,) and grows with every
    run. RMSE is sqrt(squared error / instances), MAE absolute error / instances, predicted and
    actual CTR prediction / instances and positives / instances.
    """
    if input.shape != label.shape:
        raise AssertionError(f"input {input.shape} and label {label.shape} must have one shape")
    helper = LayerHelper("ctr_metric_bundle")
    total = [
        helper.create_global_variable(persistable=True, dtype=VarType.FP32, shape=[1])
        for _ in range(6)
    ]
    rows = [helper.create_global_variable(dtype=VarType.FP32, shape=[-1]) for _ in range(3)]
    batch = [helper.create_global_variable(dtype=VarType.FP32, shape=[1]) for _ in range(6)]
    made = [*total, *rows, *batch]
    for place in _FIRST_VALUES:
        helper.set_variable_initializer(made[place], Constant(0.0, force_cpu=True))
    _append_sums(helper, input, label, made)
    absolute, squared, predicted, q, positive, instances = total
    return squared, absolute, predicted, q, positive, instances


def _append_sums(
    helper: LayerHelper, input: Variable, label: Variable, made: list[Variable]
) -> None:
    absolute, squared, predicted, q, positive, instances, error, again, ones = made[:9]
    b_predicted, b_absolute, b_squared, b_q, b_positive, b_instances = made[9:]

    def add(op_type: str, source: Variable, batch: Variable, total: Variable) -> None:
        op(op_type, {"X": [source]}, out=batch, layer=helper)
        op("elementwise_add", {"X": [batch], "Y": [total]}, out=total, layer=helper)

    op("elementwise_sub", {"X": [input], "Y": [label]}, out=error, layer=helper)
    add("squared_l2_norm", error, b_squared, squared)
    add("l1_norm", error, b_absolute, absolute)
    add("reduce_sum", input, b_predicted, predicted)
    op("sigmoid", {"X": [input]}, out=again, layer=helper)
    add("reduce_sum", again, b_q, q)
    add("reduce_sum", label, b_positive, positive)
    attrs: dict[str, Any] = {"shape": [-1, 1], "dtype": int(VarType.FP32), "value": 1.0}
    op("fill_constant_batch_size_like", {"Input": label}, attrs, out=ones, layer=helper)
    add("reduce_sum", ones, b_instances, instances)
