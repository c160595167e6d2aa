"""Data generators: scripts for a dataset's pipe command that turn raw lines into MultiSlot text."""

from refluid.fluid.incubate.data_generator.generator import DataGenerator
from refluid.fluid.incubate.data_generator.multi_slot import (
    MultiSlotDataGenerator,
    MultiSlotStringDataGenerator,
)

__all__ = ["DataGenerator", "MultiSlotDataGenerator", "MultiSlotStringDataGenerator"]
