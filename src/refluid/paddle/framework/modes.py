"""Whether functions append to programs or run at once, and gradients of what ran."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import torch

from refluid.build import at_once
from refluid.core import flags
from refluid.core.places import require_available
from refluid.eager import enter
from refluid.fluid.dygraph.base import disable_dygraph
from refluid.fluid.dygraph.base import grad as gradients_at_once
from refluid.ir.defaults import default_main_program
from refluid.paddle.framework.devices import expected_place


def enable_static() -> None:
    """Functions append to programs from here on."""
    disable_dygraph()


def disable_static(place: Any = None) -> None:
    """Functions run at once from here on, on `place`, else where `set_device` said.

    Whole numbers become float32 beside a fraction and in quotients, which they don't in Fluid.
    """
    chosen = expected_place() if place is None else place
    require_available(chosen)
    enter(chosen, promotes=True)


def start_dynamic() -> None:
    """Functions run at once, unless operators stand in a program already or the flag says no."""
    began = any(block.vars or block.ops for block in default_main_program().blocks)
    if flags.value("refluid_dynamic_start") and not began and not at_once():
        disable_static()


def in_dynamic_mode() -> bool:
    """Whether functions run at once."""
    return at_once()


class set_grad_enabled(AbstractContextManager[None]):
    """Whether what is computed takes gradients: from here on, or within a `with`."""

    def __init__(self, mode: bool) -> None:
        self._former = torch.is_grad_enabled()
        torch.set_grad_enabled(bool(mode))

    def __enter__(self) -> None:
        """It was set already."""

    def __exit__(self, *_error: object) -> None:
        torch.set_grad_enabled(self._former)


@contextmanager
def enable_grad() -> Iterator[None]:
    """What is computed within the block takes gradients."""
    with torch.enable_grad():
        yield


def is_grad_enabled() -> bool:
    """Whether what is computed takes gradients."""
    return torch.is_grad_enabled()


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool = False,
    no_grad_vars: Any = None,
) -> Any:
    """The gradients of the sum of `outputs` with respect to each of `inputs`, as they ran."""
    return gradients_at_once(
        outputs,
        inputs,
        grad_outputs,
        retain_graph,
        create_graph,
        only_inputs,
        allow_unused,
        no_grad_vars,
    )


def disable_signal_handler() -> None:
    """Leaves signals to the user: refluid has no handlers of its own."""
