"""Quantisation that is simulated in training, and what it makes of a trained model."""

from refluid.fluid.contrib.slim.quantization import quantization_pass
from refluid.fluid.contrib.slim.quantization.post_training_quantization import (
    PostTrainingQuantization,
    WeightQuantization,
)
from refluid.fluid.contrib.slim.quantization.quantization_pass import (
    AddQuantDequantPass,
    ConvertToInt8Pass,
    OutScaleForInferencePass,
    OutScaleForTrainingPass,
    QuantizationFreezePass,
    QuantizationTransformPass,
    TransformForMobilePass,
)
from refluid.fluid.contrib.slim.quantization.quantization_strategy import QuantizationStrategy

__all__ = [
    "AddQuantDequantPass",
    "ConvertToInt8Pass",
    "OutScaleForInferencePass",
    "OutScaleForTrainingPass",
    "PostTrainingQuantization",
    "QuantizationFreezePass",
    "QuantizationStrategy",
    "QuantizationTransformPass",
    "TransformForMobilePass",
    "WeightQuantization",
    "quantization_pass",
]
