"""Which operators may write their result over an input: those that are its memory's last user."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence

from refluid.analysis.liveness import view_roots
from refluid.analysis.uses import Key, key_of, writes
from refluid.ir.names import EMPTY
from refluid.ir.operator import Operator
from refluid.ops.registry import find
from refluid.runtime.pairing import Pair


class Ownership:
    """Answers for one list of operators of a block.

    last: position of the last use of each variable. live: variables that outlive the operators.
    pairs: forward operators recorded for a gradient, whose values autograd still holds until then.
    captured: variables that a loop, a branch or an array may hold on to, with the position of the
    first operator that could. in_place: whether operators may overwrite inputs where nothing
    demands it.
    """

    def __init__(
        self,
        ops: Sequence[Operator],
        last: Mapping[Key, int],
        live: set[Key],
        pairs: Mapping[int, Pair],
        captured: Mapping[Key, int] | None = None,
        *,
        in_place: bool = True,
    ) -> None:
        self.last, self.in_place = last, in_place
        self.outside, self.captured = live, captured or {}
        self.live = live | self.captured.keys()
        self.roots = {view: root for view, (root, _) in view_roots(ops).items()}
        self.groups: defaultdict[Key, set[Key]] = defaultdict(set)
        for view, root in self.roots.items():
            self.groups[root].add(view)
        self.made = Counter(key for op in ops for key in writes(op))
        self.held: defaultdict[Key, int] = defaultdict(int)
        for pair in pairs.values():
            op = ops[pair.forward]
            for name in op.input_arg_names + op.output_arg_names:
                root = self._root(key_of(op.block, name))
                self.held[root] = max(self.held[root], pair.gradient)

    def _root(self, key: Key) -> Key:
        return self.roots.get(key, key)

    def sharing(self, key: Key) -> set[Key]:
        """All variables whose values may share memory with that one's, itself included."""
        root = self._root(key)
        return self.groups[root] | {root}

    def held_until(self, key: Key) -> int:
        """Position of the last gradient operator whose recording holds the memory."""
        return self.held[self._root(key)]

    def reusable(self, op: Operator, position: int) -> tuple[str, str] | None:
        """Slot and name of the variable that `op` may overwrite, or None."""
        definition = find(op.type) if self.in_place else None
        for slot in definition.reusing if definition else ():
            # Sums are the same to the bit when their first two terms change places, not otherwise.
            for name in op.input(slot)[:2]:
                if name != EMPTY and self._is_last_user(op, position, name):
                    return slot, name
        return None

    def alone(self, op: Operator, position: int) -> frozenset[str]:
        """Inputs that `op` overwrites by name and whose memory nobody else sees any more."""
        definition = find(op.type)
        slots = definition.mutates.values() if definition else ()
        names = [name for slot in slots for name in op.input(slot)]
        return frozenset(
            name
            for name in names
            if names.count(name) == 1 and self._is_alone(key_of(op.block, name), op, position)
        )

    def _is_alone(self, key: Key, op: Operator, position: int) -> bool:
        others = self.sharing(key) - {key}
        return (
            key[0] == op.block.idx
            and key in writes(op)
            and self.held_until(key) <= position
            and not self.outside & {key, *others}
            and all(self.captured.get(one, position) >= position for one in (key, *others))
            and all(self.last.get(one, -1) < position for one in others)
        )

    def _is_last_user(self, op: Operator, position: int, name: str) -> bool:
        key = key_of(op.block, name)
        root = self._root(key)
        sharing = self.sharing(key)
        others = [key_of(op.block, one) for one in op.input_arg_names if one != EMPTY]
        others.remove(key)
        return (
            key[0] == op.block.idx
            and self.made[root] == 1
            and self.made[key] == 1
            and self.held[root] <= position
            and not sharing & self.live
            and not sharing & set(others)
            and all(self.last.get(one, -1) <= position for one in sharing)
        )
