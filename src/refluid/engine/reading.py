"""A program that reads by itself: a batch is read first, then the rest runs as if it were fed.

So the rest is recorded like any other program. What it gives is the same: operators that read
take nothing from others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from refluid.core import flags
from refluid.core.dtypes import VarType
from refluid.core.offsets import Levels
from refluid.core.scope import Scope
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.ops.comm.ahead import announce, lookups_ahead
from refluid.ops.registry import facts_of
from refluid.runtime.plan import Fetched, Plan
from refluid.runtime.readers import OpenReader


def reads_first(program: Program) -> bool:
    """Whether the program reads, and all of that can be done before anything else.

    So not where a loop or a branch reads, or where something is made of a variable before it is
    read.
    """
    main, *others = program.blocks
    if any(facts_of(op.type).reads for block in others for op in block.ops):
        return False
    reading = [op for op in main.ops if facts_of(op.type).reads]
    read = {name for op in reading for name in op.output_arg_names}
    touched: set[str] = set()
    for op in main.ops:
        if not facts_of(op.type).reads:
            touched.update(op.input_arg_names, op.output_arg_names)
        elif touched & set(op.output_arg_names):
            return False
    return bool(read)


def _only(program: Program, reading: bool) -> Program:
    """A copy with the operators that read, or with the others."""
    copy = program.clone()
    main = copy.global_block()
    Editor(main).keep(lambda op: facts_of(op.type).reads is reading)
    return copy


def without_reads(program: Program) -> tuple[Program, Program, tuple[str, ...]]:
    """The reading part of a program, the rest, and the names of what the first gives the second."""
    reads = _only(program, True)
    main = reads.global_block()
    made = dict.fromkeys(name for op in main.ops for name in op.output_arg_names)
    names = tuple(name for name in made if main.var(name).type != VarType.READER)
    return reads, _only(program, False), names


class NextLookups:
    """Tells servers what the next batch looks up, where a reader has it ready already.

    reading: the program that reads. rest: the one that trains on what it gives.
    """

    def __init__(self, reading: Program, rest: Program) -> None:
        block = reading.global_block()
        self._reads = [
            (op.input("Reader")[0], op.output("Out")) for op in block.ops if op.input("Reader")
        ]
        given = frozenset(name for _, names in self._reads for name in names)
        self._lookups = lookups_ahead(rest, given)

    def announce(self, scope: Scope) -> None:
        """Of all readers of a scope; nothing where one has no batch ready."""
        if not self._lookups or not flags.value("refluid_prefetch_rows"):
            return
        found: dict[str, Tensor] = {}
        for reader, names in self._reads:
            cell = scope.find_var(reader)
            opened = None if cell is None else cell.value
            tensors = opened.following() if isinstance(opened, OpenReader) else None
            if tensors is None:
                return
            found |= dict(zip(names, tensors, strict=True))
        announce(self._lookups, found)


class ReadingStep:
    """The step of a program for which `reads_first` holds.

    reader: reads the variables `names`. rest: the step of the rest, by the names fed with LoD;
    which variables have one is seen batch by batch. lods: those that the user feeds with LoD.
    ahead: says what the next batch looks up on servers.
    """

    def __init__(
        self,
        reader: Plan,
        names: tuple[str, ...],
        rest: Callable[[frozenset[str]], Plan],
        lods: frozenset[str],
        ahead: NextLookups,
    ) -> None:
        self._ahead = ahead
        self._reader, self._names, self._rest, self._lods = reader, names, rest, lods

    def run(
        self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Levels] = ()
    ) -> list[Fetched]:
        """As `Plan.run`; raises EOFException where the reader is at its end."""
        batch = self._reader.run(scope, ())
        self._ahead.announce(scope)
        with_lod = {name for name, one in zip(self._names, batch, strict=True) if one.levels}
        plan = self._rest(self._lods | with_lod)
        tensors, levels = [one.value for one in batch], [one.levels for one in batch]
        return plan.run(scope, [*feeds, *tensors], [*lods, *levels])
