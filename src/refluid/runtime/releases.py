"""Which values a plan drops after each operator, and which it passes on to a later one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from refluid.analysis.sizes import NOTHING, Size, size_of
from refluid.analysis.uses import Key, writes
from refluid.ir.block import Block
from refluid.ir.operator import Operator
from refluid.runtime.memory import Memory
from refluid.runtime.ownership import Ownership


class Releases:
    """Answers for one list of operators of a block.

    last: position of the last use of each variable. live: variables that outlive the operators.
    owned: which values share memory.
    """

    def __init__(
        self,
        block: Block,
        ops: Sequence[Operator],
        last: Mapping[Key, int],
        live: set[Key],
        owned: Ownership,
        memory: Memory,
    ) -> None:
        self._block, self._ops, self._owned = block, ops, owned
        self._dead: defaultdict[int, set[Key]] = defaultdict(set)
        for key, position in last.items():
            if key not in live and key[0] == block.idx:
                self._dead[position].add(key)
        self._early = self._largest(memory.share) if memory.frees else set()
        self._passed: dict[int, set[Key]] = {}
        if memory.optimize and (memory.share < 1 or memory.garbage > 0):
            self._passed = self._pass_on(last, live)
        self._handed = {key for keys in self._passed.values() for key in keys}

    def after(self, position: int) -> set[Key]:
        """What nobody needs after that operator, and may be freed before the step ends."""
        return (self._dead.get(position, set()) & self._early) - self._handed

    def before(self, position: int) -> set[Key]:
        """What is freed because that operator makes values of just those sizes."""
        return self._passed.get(position, set())

    def _size(self, key: Key) -> Size:
        return size_of(self._block.vars.get(key[1]))

    def _largest(self, share: float) -> set[Key]:
        """The largest values, up to that share of the bytes of all."""
        keys = {key for keys in self._dead.values() for key in keys}
        if share >= 1:
            return keys
        sizes = {key: self._size(key).given(1) for key in keys}
        left = share * sum(sizes.values())
        chosen = set()
        for key in sorted(keys, key=lambda key: (-sizes[key], key)):
            if left <= 0:
                break
            chosen.add(key)
            left -= sizes[key]
        return chosen

    def _pass_on(self, last: Mapping[Key, int], live: set[Key]) -> dict[int, set[Key]]:
        """Position -> values without use whose sizes are those of what is made there."""
        waiting: defaultdict[Size, list[Key]] = defaultdict(list)
        passed: defaultdict[int, set[Key]] = defaultdict(set)
        made: set[Key] = set()
        for position, op in enumerate(self._ops):
            if self._owned.reusable(op, position) is None:
                for key in sorted(writes(op) - made - live):
                    if waiting[self._size(key)]:
                        passed[position].add(waiting[self._size(key)].pop())
            made |= writes(op)
            for key in sorted(self._dead.get(position, ())):
                if key in made and self._size(key) != NOTHING and self._alone(key, position, last):
                    waiting[self._size(key)].append(key)
        return passed

    def _alone(self, key: Key, position: int, last: Mapping[Key, int]) -> bool:
        """Whether its memory is free with it: nothing that shares it is needed later."""
        sharing: Iterable[Key] = self._owned.sharing(key)
        held = self._owned.held_until(key)
        return held <= position and all(last.get(one, -1) <= position for one in sharing)
