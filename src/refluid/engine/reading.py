"""A program that reads by itself: a batch is read first, then the rest runs as if it were fed.

So the rest is recorded like any other program. What it gives is the same: operators that read
take nothing from others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from torch import Tensor

from refluid.core.dtypes import VarType
from refluid.core.offsets import Levels
from refluid.core.scope import Scope
from refluid.ir.editor import Editor
from refluid.ir.program import Program
from refluid.ops.registry import facts_of
from refluid.runtime.plan import Fetched, Plan


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


class ReadingStep:
    """The step of a program for which `reads_first` holds.

    reader: reads the variables `names`. rest: the step of the rest, by the names fed with LoD;
    which variables have one is seen batch by batch. lods: those that the user feeds with LoD.
    """

    def __init__(
        self,
        reader: Plan,
        names: tuple[str, ...],
        rest: Callable[[frozenset[str]], Plan],
        lods: frozenset[str],
    ) -> None:
        self._reader, self._names, self._rest, self._lods = reader, names, rest, lods

    def run(
        self, scope: Scope, feeds: Sequence[Tensor], lods: Sequence[Levels] = ()
    ) -> list[Fetched]:
        """As `Plan.run`; raises EOFException where the reader is at its end."""
        batch = self._reader.run(scope, ())
        with_lod = {name for name, one in zip(self._names, batch, strict=True) if one.levels}
        plan = self._rest(self._lods | with_lod)
        tensors, levels = [one.value for one in batch], [one.levels for one in batch]
        return plan.run(scope, [*feeds, *tensors], [*lods, *levels])
