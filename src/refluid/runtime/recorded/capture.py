"""A recorded step on a GPU as one CUDA graph: a single call launches all its kernels.

A graph reads and writes the memory that it was captured with. So feeds are copied to where the
graph reads them, variables that a step replaces are copied back to where they were, and fetched
results are copied before the next step overwrites them.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from refluid.core import flags
from refluid.core.scope import Cell
from refluid.runtime.code import Code, StepFunction
from refluid.runtime.recorded.graph import Compiled, Part
from refluid.runtime.recorded.repeating import all_on

_log = logging.getLogger("refluid")

# Steps before the capture, in which libraries choose kernels and allocate; and after how many
# captures a step is left alone whose variables others replace again and again.
WARM_UP, CAPTURES = 2, 4
# torch captures on one stream.
_capturing = threading.Lock()


class GraphEngine(Protocol):
    """What captures a function's kernels without running them, and runs them later."""

    def capture(self, run: Callable[[], None]) -> None: ...

    def replay(self) -> None: ...


class GraphMemory:
    """What graphs that are never run at once have in common: the memory of what they compute."""

    @cached_property
    def pool(self) -> Any:
        """For `torch.cuda.graph`."""
        return torch.cuda.graph_pool_handle()

    def forget(self) -> None:
        """Other memory from now on."""
        del self.pool


_memories: WeakKeyDictionary[Code, GraphMemory] = WeakKeyDictionary()


class CudaGraph:
    """A `torch.cuda.CUDAGraph`. generators: those that the kernels draw from."""

    def __init__(self, generators: Sequence[torch.Generator], memory: GraphMemory) -> None:
        self._generators, self._memory = generators, memory
        self._graph = self._new()

    def capture(self, run: Callable[[], None]) -> None:
        with _capturing:
            torch.cuda.synchronize()
            try:
                self._record(self._graph, run, self._memory.pool)
            except Exception:
                # Their generators take themselves for captured until a capture succeeds, and
                # their memory can't be captured in again.
                self._memory.forget()
                self._record(self._new(), lambda: torch.zeros(1, device="cuda"), None)
                raise

    def _new(self) -> torch.cuda.CUDAGraph:
        graph = torch.cuda.CUDAGraph()
        for generator in self._generators:
            graph.register_generator_state(generator)
        return graph

    def _record(self, graph: torch.cuda.CUDAGraph, run: Callable[[], Any], pool: Any) -> None:
        stream = torch.cuda.current_stream()
        try:
            # Readers go on copying in their threads meanwhile.
            with torch.cuda.graph(graph, pool, capture_error_mode="thread_local"):
                run()
        finally:  # a capture that can't even begin leaves its own stream behind
            torch.cuda.set_stream(stream)

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
            reason = str(error).split("\n")[0]
            _log.info("a step was not captured as a CUDA graph: %s", reason)
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
            if cell.value is before:
                continue
            if not isinstance(before, Tensor) or not isinstance(cell.value, Tensor):
                raise TypeError(f"variable {cell.name!r} is replaced, and is no tensor")
            before.copy_(cell.value)
            cell.value = before


def _reference(value: Any) -> Callable[[], Any]:
    return weakref.ref(value) if isinstance(value, Tensor) else lambda: value


def captured(written: Code, parts: Sequence[Part | Compiled], plan: Code) -> Code:
    """Code that runs as a graph, if FLAGS_refluid_cuda_graphs says so, and a GPU alone runs it.

    Only on the thread's present GPU: torch captures what is launched there, and nothing else.
    parts: what it was written from. plan: whose recording that is, and with it others, never run
    at once.
    """
    device: torch.device = plan.source.constants["device"]
    elsewhere = device.index is not None and device.index != torch.cuda.current_device()
    if elsewhere or not flags.value("refluid_cuda_graphs") or not all_on(device, parts):
        return written
    random, memory = plan.source.constants["random"], _memories.setdefault(plan, GraphMemory())
    return written.with_step(Captured(written.step, lambda: CudaGraph([random(0)], memory)))
