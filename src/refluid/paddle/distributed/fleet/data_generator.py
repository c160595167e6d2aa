"""`paddle.distributed.fleet.data_generator`: scripts for a dataset's pipe command, as Fluid's."""

from refluid.fluid.incubate.data_generator import (
    DataGenerator,
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
