"""Rows that a program will look up on servers, announced while the step before is computed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from torch import Tensor

from refluid.comm.servers import Where, link_of
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.comm.servers import flat_ids, ids_beyond

_LOOKUP = "distributed_lookup_table"


@dataclass(frozen=True)
class AheadLookup:
    """A lookup whose ids are those of a batch as it is read; below `height`, unless that is 0."""

    where: Where
    table: str
    version: str
    names: tuple[str, ...]
    height: int = 0


def lookups_ahead(program: Program, given: frozenset[str]) -> list[AheadLookup]:
    """Lookups on servers that need nothing but variables that a batch has, `given`.

    A table that is looked up more than once isn't among them: its rows are asked for in turns.
    """
    block = program.global_block()
    made = {name for op in block.ops for name in op.output_arg_names}
    found: dict[str, AheadLookup] = {}
    several: set[str] = set()
    for op in block.ops:
        if op.type == _LOOKUP:
            one = _described(op)
            several |= {one.table} & found.keys()
            if set(one.names) <= given - made:
                found[one.table] = one
    return [one for table, one in found.items() if table not in several]


def _described(op: Operator) -> AheadLookup:
    where = tuple(op.attr("endpoints")), int(op.attr("trainer_id"))
    version = str(op.attr("lookup_table_version"))
    names, height = tuple(op.input("Ids")), sum(op.attr("height_sections"))
    return AheadLookup(where, op.attr("table_names")[0], version, names, height)


def announce(lookups: list[AheadLookup], batch: Mapping[str, Tensor]) -> None:
    """Tells the servers' links which ids the next step has; not those that it will refuse."""
    found: defaultdict[Where, dict[str, list[Tensor]]] = defaultdict(dict)
    for one in lookups:
        flat = [flat_ids(batch[name], one.version) for name in one.names]
        if not (one.height and any(len(ids_beyond(one.height, part)) for part in flat)):
            found[one.where][one.table] = flat
    for where, ids in found.items():
        link_of(*where).announce(ids)
