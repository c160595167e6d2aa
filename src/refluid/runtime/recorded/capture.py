"""A recorded step on a GPU as one CUDA graph: a single call launches all its kernels.

A graph reads and writes the memory that it was captured with. So feeds are copied to where the
graph reads them, variables that a step replaces are copied back to where they were, and fetched
results are copied before the next step overwrites them.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.scope import Cell
from refluid.runtime.code import StepFunction
from refluid.runtime.recorded.graph import Line

_log = logging.getLogger("refluid")

# Steps before the capture, in which libraries choose kernels and allocate; and after how many
# captures a step is left alone whose variables others replace again and again.
WARM_UP, CAPTURES = 2, 4


class GraphEngine(Protocol):
    """What captures a function's kernels without running them, and runs them later."""

    def capture(self, run: Callable[[], None]) -> None: ...

    def replay(self) -> None: ...


class CudaGraph:
    """A `torch.cuda.CUDAGraph`. generators: those that the kernels draw from."""

    def __init__(self, generators: Sequence[torch.Generator]) -> None:
        self._graph = torch.cuda.CUDAGraph()
        for generator in generators:
            self._graph.register_generator_state(generator)

    def capture(self, run: Callable[[], None]) -> None:
        torch.cuda.synchronize()
        # Readers go on copying in their threads meanwhile.
        with torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            run()

    def replay(self) -> None:
        self._graph.replay()


class Captured:
    """Runs a step by its graph, once it has been captured; as it is where that is refused."""

    def __init__(self, step: StepFunction, engine: Callable[[], GraphEngine]) -> None:
        self._step, self._make = step, engine
        self._engine: GraphEngine | None = None
        self._waits, self._captures = WARM_UP, 0

    def __call__(self, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any) -> Any:
        engine = self._engine
        if engine is None or not self._is_same(cells):
            engine = self._prepare(feeds, cells, levels)
            if engine is None:
                return self._step(feeds, cells, levels)
        for static, feed in zip(self._feeds, feeds, strict=True):
            static.copy_(feed, non_blocking=True)
        engine.replay()
        results, found = self._results
        return tuple(one.clone() if isinstance(one, Tensor) else one for one in results), found

    def _is_same(self, cells: Sequence[Cell]) -> bool:
        """Whether the variables are the very tensors of the capture."""
        return all(cell.value is seen() for cell, seen in zip(cells, self._variables, strict=True))

    def _prepare(
        self, feeds: Sequence[Tensor], cells: Sequence[Cell], levels: Any
    ) -> GraphEngine | None:
        """A new graph; None where it isn't time, or the step can't be captured."""
        self._engine = None
        self._waits -= 1
        if self._waits >= 0 or self._captures == CAPTURES:
            return None
        self._waits, self._captures = WARM_UP, self._captures + 1
        self._feeds = [feed.clone() for feed in feeds]
        held = [cell.value for cell in cells]
        try:
            engine = self._make()
            engine.capture(partial(self._run, cells, held, levels))
        except Exception as error:
            for cell, value in zip(cells, held, strict=True):
                cell.value = value
            self._captures = CAPTURES
            _log.warning("a step was not captured as a CUDA graph: %s", error)
            return None
        self._variables = [_reference(cell.value) for cell in cells]
        self._engine = engine
        _log.info("captured a step as a CUDA graph")
        return engine

    def _run(self, cells: Sequence[Cell], held: Sequence[Any], levels: Any) -> None:
        """One step whose results stay where they are, and after which variables are where they
        were before."""
        self._results = self._step(self._feeds, cells, levels)
        for cell, before in zip(cells, held, strict=True):
            if cell.value is before or before is None:
                continue
            if not isinstance(before, Tensor) or not isinstance(cell.value, Tensor):
                raise TypeError(f"variable {cell.name!r} is replaced, and is no tensor")
            before.copy_(cell.value)
            cell.value = before


def _reference(value: Any) -> Callable[[], Any]:
    return weakref.ref(value) if isinstance(value, Tensor) else lambda: value


def is_capturable(steps: Sequence[Any], device: torch.device) -> bool:
    """Whether the step is kernels alone, on a GPU, and FLAGS_refluid_cuda_graphs asks for it."""
    asked = device.type == "cuda" and flags.value("refluid_cuda_graphs")
    return bool(asked) and not any(isinstance(step, Line) for step in steps)
