"""Linear-chain CRFs of float32 by compiled loops, several threads taking sequences.

Emission [..., tags] are rows of sequences: `starts` [sequences + 1] are their first rows, and last
how many rows there are, `lengths` [sequences] how many rows of each are its own; both int64. Label
int64, one for each row; Transition [tags + 2, tags].
"""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_int64
from typing import Any

import torch
from torch import Tensor

from refluid.kernels.labelling.crf_loops import (
    crf_likelihoods,
    crf_slopes,
    few_likelihoods,
    few_slopes,
)
from refluid.kernels.labelling.path_loops import crf_paths, few_paths
from refluid.kernels.watching import is_watched

# Fewer multiplications are done before another thread has come.
_FOR_TEAM = 2**16

_Loop = Callable[..., Any]
_FourTensors = tuple[Tensor, Tensor, Tensor, Tensor]


def likelihoods(*given: Tensor) -> _FourTensors:
    """Alpha, exponentials of emissions and of transitions, -log of each sequence's probability.

    given: Emission, Transition, Label, starts, lengths.
    """
    found: _FourTensors = _called("crf_likelihoods", _likelihoods, *given)
    return found


def slopes(*given: Tensor) -> tuple[Tensor, Tensor]:
    """Gradients of emissions and transitions.

    given: Alpha, the exponentials, Label, the gradients of `likelihoods`, starts, lengths.
    """
    found: tuple[Tensor, Tensor] = _called("crf_slopes", _slopes, *given)
    return found


def best_paths(*given: Tensor | None) -> Tensor:
    """The best tag of each row, [rows], 0 where it is no sequence's own.

    given: Emission, Transition, Label or None, starts, lengths. With labels: 1 where they are the
    best tags, else 0.
    """
    found: Tensor = _called("crf_paths", _paths, *given)
    return found


def _called(name: str, kernel: _Loop, *given: Any) -> Any:
    """By torch's operator where calls are watched; without it a call takes 5 us less."""
    return getattr(torch.ops.refluid, name)(*given) if is_watched() else kernel(*given)


class _TagLoops:
    """What loops are told of the sequences, and where they note what they took and found."""

    def __init__(self, rows: Tensor, starts: Tensor, lengths: Tensor) -> None:
        tags = rows.shape[-1]
        self.by_team = rows.numel() * tags >= _FOR_TEAM
        self.layout, self.size = (starts.data_ptr(), lengths.data_ptr()), (lengths.numel(), tags)
        self._counters = (c_int64 * 4)()

    def run(self, loop: _Loop, given: Any, made: Any, *phases: int) -> None:
        """Calls a loop; a label that is no tag is refused as torch does."""
        counters = self._counters
        loop(addressof(counters), given, self.layout, made, self.size, *phases)
        if counters[1]:
            torch.empty(1, self.size[1]).gather(1, torch.tensor([[counters[2]]]))


def _likelihoods(
    x: Tensor, transition: Tensor, label: Tensor, starts: Tensor, lengths: Tensor
) -> _FourTensors:
    weights = torch.exp(transition)
    alpha, exps, cost = torch.empty_like(x), torch.empty_like(x), x.new_empty(lengths.numel(), 1)
    given = x.data_ptr(), transition.data_ptr(), weights.data_ptr(), label.data_ptr()
    made = alpha.data_ptr(), exps.data_ptr(), cost.data_ptr()
    work = _TagLoops(x, starts, lengths)
    work.run(crf_likelihoods if work.by_team else few_likelihoods, given, made)
    return alpha, exps, weights, cost


def _slopes(
    alpha: Tensor,
    exps: Tensor,
    weights: Tensor,
    label: Tensor,
    grad: Tensor,
    starts: Tensor,
    lengths: Tensor,
) -> tuple[Tensor, Tensor]:
    if exps.shape != alpha.shape or grad.numel() != lengths.numel():
        sizes = f"{[*exps.shape]} and {[*grad.shape]}"
        raise RuntimeError(f"exponentials and gradients of a CRF are {sizes}, which don't fit")
    work = _TagLoops(alpha, starts, lengths)
    turned = weights[2:].t().contiguous() if work.by_team else torch.empty_like(weights)
    rows, transition, flows = map(torch.empty_like, (alpha, weights, alpha))
    given = (
        *(alpha.data_ptr(), exps.data_ptr(), weights.data_ptr(), turned.data_ptr()),
        *(label.data_ptr(), grad.data_ptr()),
    )
    made = rows.data_ptr(), flows.data_ptr(), transition.data_ptr()
    if work.by_team:
        work.run(crf_slopes, given, made, 1, 0)
        work.run(crf_slopes, given, made, 0, 1)
    else:
        work.run(few_slopes, given, made, 1, 1)
    return rows, transition


def _paths(
    x: Tensor, transition: Tensor, label: Tensor | None, starts: Tensor, lengths: Tensor
) -> Tensor:
    scores, path = torch.empty_like(x), torch.empty(x.shape[:-1].numel(), dtype=torch.int64)
    given = x.data_ptr(), transition.data_ptr(), 0 if label is None else label.data_ptr()
    work = _TagLoops(x, starts, lengths)
    work.run(crf_paths if work.by_team else few_paths, given, (scores.data_ptr(), path.data_ptr()))
    return path


# Operators of torch's, which those who watch calls see.
if not hasattr(torch.ops.refluid, "crf_likelihoods"):  # they are there where this is loaded anew
    _library: Any = torch.library.Library("refluid", "FRAGMENT")  # type: ignore[no-untyped-call]
    _library.define(
        "crf_likelihoods(Tensor x, Tensor transition, Tensor label, Tensor starts, Tensor lengths) "
        "-> (Tensor, Tensor, Tensor, Tensor)"
    )
    _library.define(
        "crf_slopes(Tensor alpha, Tensor exps, Tensor weights, Tensor label, Tensor grad, "
        "Tensor starts, Tensor lengths) -> (Tensor, Tensor)"
    )
    _library.define(
        "crf_paths(Tensor x, Tensor transition, Tensor? label, Tensor starts, Tensor lengths) "
        "-> Tensor"
    )
    _library.impl("crf_likelihoods", _likelihoods, "CPU")
    _library.impl("crf_slopes", _slopes, "CPU")
    _library.impl("crf_paths", _paths, "CPU")
