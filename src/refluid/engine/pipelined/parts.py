"""A training step that goes through its batch in parts: a pipeline of one stage, in one process.

loss, w = step(w, batch)  ->  g = sum(gradients(w, part) for part in batch); w = update(w, g)

Only one part's activations are held at a time. Losses that are means over the batch have the same
gradients as of the whole batch; batch norms look at each part.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from weakref import WeakKeyDictionary

from refluid.comm import ALONE
from refluid.core import flags
from refluid.core.places import Place
from refluid.core.scope import Scope
from refluid.engine.cache import Cache
from refluid.engine.group import Group
from refluid.engine.pipelined.micro_batches import MicroBatches, samples
from refluid.engine.pipelined.run import PipelineMembers, PipelineRun
from refluid.engine.strategy import Strategy
from refluid.ir.attributes import DEVICE, OpRole
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.effects import Effect
from refluid.ops.registry import facts_of
from refluid.passes.pipeline_placing import Placing
from refluid.passes.pipeline_stages import cut
from refluid.runtime.adaptive import AdaptiveThreads
from refluid.runtime.plan import Fetched

_MEMBERS = PipelineMembers(ALONE, ALONE, ALONE, None)
_of_groups: WeakKeyDictionary[Group, PartedSteps] = WeakKeyDictionary()


def in_parts(
    group: Group,
    program: Program,
    feed: Any,
    fetches: tuple[str, ...],
    strategy: Strategy,
    scope: Scope,
) -> list[Fetched] | None:
    """One step on the group's first place, in as many parts as the flag says; None where it has to
    be whole."""
    if not isinstance(feed, Mapping):
        return None
    made = _of_groups.setdefault(group, PartedSteps(group.places[0]))
    parts = int(flags.value("refluid_batch_parts"))
    return made.run(program, feed, fetches, strategy, scope, parts)


class PartedSteps:
    """What was made of programs that train in parts, on one place."""

    def __init__(self, place: Place) -> None:
        self._place, self._made = place, Cache()

    def run(
        self,
        program: Program,
        feed: Mapping[str, Any],
        fetches: tuple[str, ...],
        strategy: Strategy,
        scope: Scope,
        parts: int,
    ) -> list[Fetched] | None:
        """One step, as `Executor.run` of the whole batch; None where it has to be whole: what
        doesn't train, reads by itself, exchanges, or is fed rows that so many parts don't share."""
        if not _is_cut(program, feed, parts):
            return None
        run, threads = self._prepared(program, strategy, scope, parts)
        if not all(run.computes(name) for name in fetches):
            return None
        return [one for (one,) in threads.run(run.run, feed, fetches) if one is not None]

    def _prepared(
        self, program: Program, strategy: Strategy, scope: Scope, parts: int
    ) -> tuple[PipelineRun, AdaptiveThreads]:
        key = id(program), program.change_count, id(scope), strategy, parts
        found = self._made.get(key)
        if found is None:
            stage = cut(program, 0, Placing(program, 1), parts)
            place, micro = self._place, MicroBatches(parts)
            run = PipelineRun(stage, micro, strategy, place, _MEMBERS, scope, [])
            found = program, scope, (run, AdaptiveThreads())
            self._made.keep(key, found)
        made: tuple[PipelineRun, AdaptiveThreads] = found[-1]
        return made


def _is_cut(program: Program, feed: Mapping[str, Any], parts: int) -> bool:
    rows = {samples(value) for value in feed.values()}
    shared = len(rows) == 1 and all(one % parts == 0 for one in rows)
    return shared and program.derived(_trains_by_itself)


def _trains_by_itself(program: Program) -> bool:
    """Whether it goes forward and backward, updates, and deals with nobody."""
    ops = program.global_block().ops
    roles = {
        role for role in (OpRole.BACKWARD, OpRole.OPTIMIZE) if any(op.role & role for op in ops)
    }
    return len(roles) == 2 and not any(map(_deals_with_others, ops))


def _deals_with_others(op: Operator) -> bool:
    facts = facts_of(op.type)
    return bool(facts.reads or op.attrs.get(DEVICE) or facts.effects & (Effect.COMM | Effect.HOST))
