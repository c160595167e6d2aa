"""Rows of text as Fluid's MultiSlotDataFeed has them, parsed."""
