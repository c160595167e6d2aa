"""Parameters that have other gradients for a while than those computed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from refluid.core.errors import EnforceNotMet
from refluid.core.selected_rows import SelectedRows


@contextmanager
def gradients_of(pairs: Sequence[tuple[Any, Any]]) -> Iterator[None]:
    """Within it parameters have the gradients beside them; EnforceNotMet for another shape."""
    own = [(one, one.tensor.grad, one.rows) for one, _ in pairs]
    try:
        for one, gradient in pairs:
            _put(one, gradient)
        yield
    finally:
        for one, dense, rows in own:
            one.tensor.grad, one.rows = dense, rows


def _put(parameter: Any, gradient: Any) -> None:
    value = gradient._value
    if isinstance(value, SelectedRows):
        parameter.rows, parameter.tensor.grad = value, None
        return
    if value.shape != parameter.tensor.shape:
        raise EnforceNotMet(
            f"the gradient given for parameter {parameter.name!r} has shape {list(value.shape)}, "
            f"the parameter {list(parameter.shape)}"
        )
    parameter.rows, parameter.tensor.grad = None, value.detach().to(parameter.tensor.dtype)
