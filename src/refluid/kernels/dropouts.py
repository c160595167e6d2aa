"""Dropout in one pass over memory, shared among torch's threads.

Torch draws one number after the other in one thread, and compares, multiplies and scales in passes
of their own. Here what is dropped follows from a key that is drawn and from an element's place, so
that it is the same for any number of threads.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from refluid.kernels.dropout_loops import drop, keep

# So many numbers are a part that a thread takes; what is drawn follows from it, too.
_PART = 2**13


def suits(*given: Tensor) -> bool:
    """Whether these are what is dropped from: whole float32, or a mask."""
    return all(one.dtype in (torch.float32, torch.uint8) and one.is_contiguous() for one in given)


def dropped(x: Tensor, key: Tensor, share: float, divisor: float) -> tuple[Tensor, Tensor]:
    """x / divisor, but 0 with probability `share` (below 1), and the mask: uint8, 0 there.

    key: int64 [1], of which the bits that are drawn are a function.
    """
    found: tuple[Tensor, Tensor] = torch.ops.refluid.dropped(x, key, share, divisor)
    return found


def kept(x: Tensor, mask: Tensor, divisor: float) -> Tensor:
    """x / divisor where the mask isn't 0, else 0."""
    found: Tensor = torch.ops.refluid.kept(x, mask, divisor)
    return found


def _dropped(x: Tensor, key: Tensor, share: float, divisor: float) -> tuple[Tensor, Tensor]:
    out, mask = torch.empty_like(x), torch.empty_like(x, dtype=torch.uint8)
    counter = torch.zeros(1, dtype=torch.int64)
    flat, least = (x.view(-1), out.view(-1), mask.view(-1)), min(int(share * 2**32), 2**32 - 1)
    drop(counter, flat[0], key, least, divisor, *flat[1:], _PART)
    return out, mask


def _kept(x: Tensor, mask: Tensor, divisor: float) -> Tensor:
    out, counter = torch.empty_like(x), torch.zeros(1, dtype=torch.int64)
    keep(counter, x.view(-1), mask.view(-1), divisor, out.view(-1), _PART)
    return out


def _dropping(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    ctx.divisor = inputs[3]
    ctx.save_for_backward(output[1])
    ctx.mark_non_differentiable(output[1])


def _keeping(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001
    ctx.divisor = inputs[2]
    ctx.save_for_backward(inputs[1])


def _through(ctx: Any, grad: Tensor) -> Tensor:
    (mask,) = ctx.saved_tensors
    return kept(grad.contiguous(), mask, ctx.divisor)


# Operators of torch's, as in `epilogues.py`.
if not hasattr(torch.ops.refluid, "dropped"):
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define("dropped(Tensor x, Tensor key, float share, float divisor) -> (Tensor, Tensor)")
    _library.define("kept(Tensor x, Tensor mask, float divisor) -> Tensor")
    _library.impl("dropped", _dropped, "CPU")
    _library.impl("kept", _kept, "CPU")
    torch.library.register_autograd(
        "refluid::dropped",
        lambda ctx, grad, _mask: (_through(ctx, grad), None, None, None),
        setup_context=_dropping,
        lib=_library,
    )
    torch.library.register_autograd(
        "refluid::kept",
        lambda ctx, grad: (_through(ctx, grad), None, None),
        setup_context=_keeping,
        lib=_library,
    )
