"""Training in mixed precision: `fluid.contrib.mixed_precision.decorate(optimizer)`."""

from refluid.fluid.contrib.mixed_precision import decorator, fp16_lists, fp16_utils
from refluid.fluid.contrib.mixed_precision.decorator import decorate
from refluid.fluid.contrib.mixed_precision.fp16_lists import AutoMixedPrecisionLists

__all__ = ["AutoMixedPrecisionLists", "decorate", "decorator", "fp16_lists", "fp16_utils"]
