"""`fluid.data_generator`: the name under which Fluid also has `fluid.incubate.data_generator`."""

from refluid.fluid.incubate.data_generator import (
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)

__all__ = ["MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
