"""Metrics computed in the program: accuracy, auc."""

from __future__ import annotations

from refluid.build import op
from refluid.core.dtypes import VarType
from refluid.core.notices import tell_once
from refluid.fluid.functions.math.ordering import topk
from refluid.fluid.initializer import Constant
from refluid.fluid.layer_helper import LayerHelper
from refluid.ir.variable import Variable


def accuracy(
    input: Variable,
    label: Variable,
    k: int = 1,
    correct: Variable | None = None,
    total: Variable | None = None,
) -> Variable:
    """The share of samples whose label is among the `k` greatest of `input`, shape (1,).

    input: (N, classes); label: int64 (N, 1). correct, total: int32 variables that get the counts.
    """
    helper = LayerHelper("accuracy")
    values, indices = topk(input, k=k)
    inputs = {"Out": [values], "Indices": [indices], "Label": [label]}
    counts = {"Correct": correct or VarType.INT32, "Total": total or VarType.INT32}
    return op("accuracy", inputs, None, {"Accuracy": VarType.FP32, **counts}, layer=helper)[0]


def auc(
    input: Variable,
    label: Variable,
    curve: str = "ROC",
    num_thresholds: int = 2**12 - 1,
    topk: int = 1,
    slide_steps: int = 1,
) -> tuple[Variable, Variable, list[Variable]]:
    """Area under the curve: over all batches so far, and over the last `slide_steps` of them.

    input: (N, 2), the second column is the score; label: (N, 1). Returns both values and the
    four variables that count positives and negatives per threshold: of the batches, then of all.
    As in Fluid, the curve is ROC whatever `curve` says: a warning in the log says so.
    """
    if curve != "ROC":
        tell_once(
            f"auc: Fluid 1.8.5 computes the ROC curve for curve={curve!r} too, as does refluid"
        )
    helper = LayerHelper("auc")
    overall = helper.create_variable_for_type_inference(VarType.FP64)
    recent = helper.create_variable_for_type_inference(VarType.FP64)
    width = num_thresholds + 1
    shapes = [[(1 + slide_steps) * width + 1]] * 2 + [[1, width]] * 2
    counts = [
        helper.create_global_variable(persistable=True, dtype="int64", shape=shape)
        for shape in shapes
    ]
    for count in counts:
        helper.set_variable_initializer(count, Constant(0.0))
    for out, steps, (positive, negative) in (
        (recent, slide_steps, counts[:2]),
        (overall, 0, counts[2:]),
    ):
        op(
            "auc",
            {"Predict": [input], "Label": [label], "StatPos": positive, "StatNeg": negative},
            {"curve": curve, "num_thresholds": num_thresholds, "slide_steps": steps},
            out=out,
            layer=helper,
        )
    return overall, recent, counts


def mean_iou(
    input: Variable, label: Variable, num_classes: int
) -> tuple[Variable, Variable, Variable]:
    """The mean over classes of intersection over union, (1,); wrong and right counts by class.

    input, label: whole numbers of one shape, predicted and true classes.
    """
    inputs, attrs = {"Predictions": input, "Labels": label}, {"num_classes": num_classes}
    makes = {"OutMeanIou": VarType.FP32, "OutWrong": VarType.INT32, "OutCorrect": VarType.INT32}
    mean, wrong, right = op("mean_iou", inputs, attrs, makes)
    return mean, wrong, right
