"""What Fluid has for int8 by oneDNN, and refluid refuses."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from refluid.core.errors import EnforceNotMet


def no_quantizer() -> EnforceNotMet:
    """What to raise where int8 by oneDNN is asked for."""
    return EnforceNotMet(
        "enable_quantizer: refluid has no int8 inference. Leave it out, and the model is computed "
        "in float32; or convert it (`refluid convert MODEL --to onnx`) for a runtime that has it"
    )


class MkldnnQuantizerConfig:
    """Settings of int8 by oneDNN, which `AnalysisConfig.enable_quantizer` refuses."""

    def set_quant_data(self, data: Sequence[Any]) -> None:
        """Raises EnforceNotMet."""
        raise no_quantizer()

    def set_quant_batch_size(self, size: int) -> None:
        """Raises EnforceNotMet."""
        raise no_quantizer()

    def set_enabled_op_types(self, types: Iterable[str]) -> None:
        """Raises EnforceNotMet."""
        raise no_quantizer()
