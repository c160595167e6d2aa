"""`LayerObjectHelper`: what a `Layer` writes itself with."""

from __future__ import annotations

from typing import Any

from refluid.build import apply
from refluid.fluid.layer_helper_base import LayerHelperBase


class LayerObjectHelper(LayerHelperBase):
    """The helper of a layer of this name."""

    def __init__(self, name: str) -> None:
        super().__init__(name, name)

    def append_op(
        self,
        type: str | None = None,
        inputs: Any = None,
        outputs: Any = None,
        attrs: Any = None,
        stop_gradient: bool | None = None,
    ) -> Any:
        """Runs an operator, or appends it to the current block."""
        assert type is not None, "append_op needs the operator's type"
        return apply(type, inputs, outputs, attrs)
