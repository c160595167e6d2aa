"""What the steps of a plan must wait for, so that they may run out of order.

A step waits for those that make the values it reads, and before it gives a name another value or
overwrites memory, for those that read it. What has effects outside the plan (random numbers,
communication, printing) keeps its order among those of the same effect.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Sequence

from refluid.ops.effects import Effect
from refluid.runtime.steps import Step
from refluid.runtime.trees import Reference

MemoryPlace = Hashable


def predecessors(
    found: Sequence[Step], memory: Callable[[Reference], MemoryPlace]
) -> list[set[int]]:
    """For each step the earlier ones that it waits for.

    memory: name -> one name for all that may share its memory.
    """
    made: dict[Reference, int] = {}
    readers: defaultdict[Reference, set[int]] = defaultdict(set)
    users: defaultdict[MemoryPlace, set[int]] = defaultdict(set)
    changed: dict[MemoryPlace, int] = {}
    former: dict[Effect, int] = {}
    result = []
    for number, one in enumerate(found):
        waits: set[int] = set()
        reads, writes, overwrites, effects = one.reads, one.writes, one.overwrites, one.effects
        for name in reads | writes | overwrites:
            waits |= {made[name]} if name in made else set()
            waits |= {changed[memory(name)]} if memory(name) in changed else set()
        for name in writes:
            waits |= readers[name]
        for name in overwrites:
            waits |= users[memory(name)]
        waits |= {former[effect] for effect in effects if effect in former}
        former |= dict.fromkeys(effects, number)
        waits.discard(number)
        result.append(waits)
        for name in reads:
            readers[name].add(number)
        for name in writes:
            made[name], readers[name] = number, set()
        for name in overwrites:
            changed[memory(name)], users[memory(name)] = number, set()
        for name in reads | writes:
            users[memory(name)].add(number)
    return result
