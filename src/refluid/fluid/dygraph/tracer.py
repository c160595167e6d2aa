"""`Tracer`: how scripts of Fluid 1.5 to 1.8 ask whether, and how, operators run at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from refluid import eager
from refluid.build import run_at_once

__all__ = ["Tracer"]


class Tracer:
    """What runs operators; its modes say whether what they compute takes gradients."""

    def trace_op(
        self,
        type: str,
        inputs: Mapping[str, Any],
        outputs: Mapping[str, Any],
        attrs: Mapping[str, Any],
        stop_gradient: bool = False,
    ) -> None:
        """Runs an operator, whose results go to `outputs`."""
        run_at_once(type, inputs, outputs, attrs, stop_gradient)

    def trace(self, *args: Any, **kwargs: Any) -> None:
        """As `trace_op`, with a place and whether gradients are wanted after it."""
        takes = args[5] if len(args) > 5 else kwargs.get("trace_backward", True)
        self.trace_op(args[0], args[1], args[2], args[3], not takes)

    @property
    def _train_mode(self) -> bool:
        """Whether what is computed takes gradients, and `fluid.layers.dropout` drops."""
        now = eager.current()
        return torch.is_grad_enabled() and (now is None or now.training)

    def train_mode(self) -> None:
        """What is computed takes gradients."""
        eager.train(True)
        torch.set_grad_enabled(True)

    def eval_mode(self) -> None:
        """Nothing computed takes gradients, until `train_mode`."""
        eager.train(False)
        torch.set_grad_enabled(False)
