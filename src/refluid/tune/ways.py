"""Ways to run a loop that `refluid run --auto` may try."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import Any

from refluid.comm.world import world
from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.lod_tensor import LoDTensor
from refluid.core.threads import free_threads
from refluid.engine.choices import Choices
from refluid.engine.knobs import KnobScope
from refluid.engine.listening import RunCall
from refluid.fluid.compiler import CompiledProgram
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of
from refluid.tune.window import plain_program

_OUTSIDE = Effect.HOST | Effect.COMM
_TIER, _BUCKET = "FLAGS_refluid_tier", "FLAGS_fuse_parameter_memory_size"


@dataclass(frozen=True)
class Way:
    """choices: what flags are. threads: of an operator; 0: as they are.

    is_exact: it calls the same kernels with the same arguments, so it gives the same numbers;
    others do for feeds of the `known` signatures, as was seen.
    """

    name: str
    choices: Choices
    threads: int = 0
    is_exact: bool = True
    known: frozenset[Hashable] = frozenset()

    def fits(self, feed: Any) -> bool:
        """Whether a step of this feed gives the same numbers."""
        return self.is_exact or signature(feed) in self.known


def ways(call: RunCall, best: Way) -> Iterator[Way]:
    """What may be faster than `best` for such calls; each with it, as it is when asked for."""
    compiled = call.program if isinstance(call.program, CompiledProgram) else None
    replicated = compiled._replicated if compiled else None
    several = replicated is not None and len(replicated.places) > 1
    most = 1 if several else free_threads()
    while most > 1:
        most //= 2
        words = "1 thread" if most == 1 else f"{most} threads"
        yield Way(f"{words} an operator", best.choices, most, is_exact=False)
    if several and not flags.was_set(_BUCKET.removeprefix("FLAGS_")):
        for size in (1.0, 100.0):
            yield Way(f"buckets of {size:g} MB", _with(best, _BUCKET, size), is_exact=False)
    if flags.get_flags(_TIER)[_TIER] == "auto":
        yield Way("operators as they are, not recorded", _with(best, _TIER, "interpreted"))


def _with(way: Way, flag: str, value: Any) -> Choices:
    return way.choices.put(KnobScope.FLAG, flag, value)


def is_repeatable(call: RunCall) -> bool:
    """Whether a step can be run twice unseen, and sizes follow from the shapes of feeds."""
    program = plain_program(call.program)
    outside = any(
        facts_of(op.type).effects & _OUTSIDE or facts_of(op.type).reads
        for block in program.blocks
        for op in block.ops
    )
    dense = all(
        var.type == VarType.LOD_TENSOR and not var.lod_level
        for var in program.list_vars()
        if var.type not in (VarType.FEED_MINIBATCH, VarType.FETCH_LIST)
    )
    return dense and not outside and world().size == 1


def signature(feed: Any) -> Hashable | None:
    """Shapes and element types of what is fed; None where there is more to it, such as LoD."""
    if isinstance(feed, list | tuple) and len(feed) == 1:
        feed = feed[0]
    if not isinstance(feed, dict):
        return None
    found = []
    for name, value in feed.items():
        plain = value.tensor if isinstance(value, LoDTensor) else value
        if not hasattr(plain, "shape") or (isinstance(value, LoDTensor) and value.levels):
            return None
        found.append((name, tuple(plain.shape), str(plain.dtype)))
    return tuple(found)
