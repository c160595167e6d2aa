"""One step of all replicas recorded on copies of their variables, batched, and tried out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from refluid.analysis.uses import Key
from refluid.core.errors import EnforceNotMet
from refluid.core.random import unchanged
from refluid.core.scope import Cell
from refluid.runtime.batched.align import Aligned, Unlike, align
from refluid.runtime.batched.differing import Differing
from refluid.runtime.batched.exchange import whole
from refluid.runtime.batched.lines import Meaning, meaning, require_quiet
from refluid.runtime.batched.text import BatchedText
from refluid.runtime.code import Code
from refluid.runtime.plan import Plan
from refluid.runtime.recorded.graph import Line, Part, equal
from refluid.runtime.recorded.record import Refused, StepRecorder
from refluid.runtime.recorded.simplify import simplify
from refluid.runtime.trees import Name

Feeds = Sequence[Sequence[Tensor]]
Cells = Sequence[Sequence[Cell]]
Everywhere = Callable[[Callable[[int], Any]], list[Any]]

# How far results of the batched step may be from those of the replicas' own kernels, relative to
# their norm: sums are taken in another order.
_CLOSE, _CLOSE_IN_HALF = 1e-3, 2e-2
# With more calls than so many times those of one replica, too little was batched to be worth it.
_CALLS = 1.5


def trial_run(
    plans: Sequence[Plan], feeds: Feeds, cells: Cells, everywhere: Everywhere
) -> tuple[Code, set[int]]:
    """The code of the batched step, and the numbers of the variables that differ.

    everywhere: runs a function of the rank in every replica's thread. Variables and random
    numbers stay as they are. Raises Unlike, or Refused, where the replicas cannot be batched.
    """
    for op in plans[0].request.block.ops:
        require_quiet(op)
    first = cells[0]
    for number, cell in enumerate(first):
        if any(type(row[number].value) is not type(cell.value) for row in cells):
            raise Unlike(f"the replicas' {cell.name} differ in type")
        if cell.value is not None and not isinstance(cell.value, Tensor):
            raise Unlike(f"{cell.name} is a {type(cell.value).__name__}")
    device = plans[0].request.device
    copies = _copies(cells)

    def record(rank: int) -> tuple[list[Part], dict[Key, Name]]:
        recorder = StepRecorder(plans[rank].code)
        recorder.check(feeds[rank], copies[rank])
        with torch.no_grad():
            recorder.run(feeds[rank], copies[rank], [])
        recording = recorder.recording
        return simplify(recording.steps), recording.names_of(plans[rank].code)

    with unchanged(device):
        recorded = everywhere(record)
    aligned = align([steps for steps, _ in recorded])
    means: dict[Line, Meaning] = {
        step: meaning(step) for step in aligned.steps if isinstance(step, Line)
    }
    cells_differ = {n for n in range(len(first)) if not _equal([row[n].value for row in cells])}
    differing = Differing(aligned, means, cells_differ)
    names = recorded[0][1]
    constants = plans[0].code.source.constants
    codes = []
    for together in (True, False):
        text = BatchedText(constants, aligned, means, differing, together=together)
        codes.append(Code(text.write(), names, "batched step"))
        if together and text.calls > _CALLS * len(aligned.steps) + len(first):
            raise Unlike(f"{text.calls} calls instead of {len(aligned.steps)} of each replica")
    try:
        _try_out(codes, device, feeds, cells, _closeness(aligned))
    except (EnforceNotMet, RuntimeError, TypeError, ValueError, IndexError) as error:
        raise Unlike(f"the batched step failed: {error}") from error
    return codes[0], differing.cells


def _copies(cells: Cells) -> list[list[Cell]]:
    """Cells of other scopes: those that are shared get a copy for each replica too."""
    rows = []
    for row in cells:
        copies = []
        for cell in row:
            copy = Cell(cell.name)
            copy.value, copy.lod = cell.value, cell.lod
            if isinstance(cell.value, Tensor):
                copy.value = cell.value.clone()
            copies.append(copy)
        rows.append(copies)
    return rows


def _equal(values: Sequence[Tensor | None]) -> bool:
    first, *others = values
    if first is None:
        return True
    return all(
        other is first
        or (other is not None and other.stride() == first.stride() and equal(first, other))
        for other in others
    )


def _closeness(aligned: Aligned) -> float:
    """How far results may be apart: more where something is computed in half precision."""
    layouts = [value.layout for value in aligned.counterparts if value.layout is not None]
    half = any(one.dtype in (torch.bfloat16, torch.float16) for one in layouts)
    return _CLOSE_IN_HALF if half else _CLOSE


def _try_out(
    codes: Sequence[Code], device: torch.device, feeds: Feeds, cells: Cells, within: float
) -> None:
    """Raises Unlike unless both codes have the same results and leave the same variables."""
    outcomes = []
    together = [whole(parts) for parts in zip(*feeds, strict=True)]
    for code in codes:
        copies = _copies(cells)
        with unchanged(device), torch.no_grad():
            results: Any = code.step(together, copies, [])
        values = [value for fetched in results for value in fetched]
        outcomes.append([*values, *(cell.value for row in copies for cell in row)])
    for one, other in zip(*outcomes, strict=True):
        if not _close(one, other, within):
            raise Unlike("the batched step has other results")


def _close(one: Any, other: Any, within: float) -> bool:
    if not isinstance(one, Tensor) or not isinstance(other, Tensor):
        return type(one) is type(other)
    if (one.shape, one.dtype) != (other.shape, other.dtype):
        return False
    if not one.is_floating_point():
        return torch.equal(one, other)
    first, second = one.double().nan_to_num(), other.double().nan_to_num()
    return bool((first - second).norm() <= within * second.norm() + 1e-6)


__all__ = ["Refused", "Unlike", "trial_run"]
