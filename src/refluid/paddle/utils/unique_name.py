"""`paddle.utils.unique_name`: Fluid's."""

from __future__ import annotations

from refluid.fluid.unique_name import UniqueNameGenerator, generate, guard, switch

__all__ = ["UniqueNameGenerator", "generate", "guard", "switch"]
