"""`fluid.unique_name`."""

from refluid.core.names import generate, guard, switch

__all__ = ["generate", "guard", "switch"]
