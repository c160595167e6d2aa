"""`split`: the programs of one process become those of trainers and of servers."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from refluid.core.dtypes import to_torch
from refluid.core.errors import EnforceNotMet
from refluid.ir.operator import Operator
from refluid.ir.program import Program
from refluid.ops.registry import facts_of
from refluid.pserver.layout import (
    DenseParameter,
    DenseSlice,
    Dispatch,
    JobLayout,
    SparseParameter,
    TrainingMode,
    in_turn,
    row_ranges,
)
from refluid.pserver.row_policies import read_entry
from refluid.pserver.saved_before import SavedBefore
from refluid.pserver.server_programs import ServerSide, server_program, server_startup
from refluid.pserver.trainer_programs import TrainerSide, rewrite_main, rewrite_startup
from refluid.pserver.updates import (
    ParameterUpdate,
    as_table,
    draws_of,
    initial_op,
    lookups_of,
    updates_of,
)

_LOGGER = logging.getLogger("refluid")


@dataclass(frozen=True)
class SplitOptions:
    """How parameters are spread: cut into slices of at least `least` elements, dealt by `deal`.

    any_ids: all tables take any ids, not just those whose lookups say is_distributed.
    """

    cut: bool = True
    least: int = 8192
    deal: Dispatch | None = None
    any_ids: bool = False


@dataclass(frozen=True)
class Split:
    """A job's layout, and the programs of its servers by endpoint."""

    trainer: int
    layout: JobLayout
    side: ServerSide
    is_sgd: bool
    options: SplitOptions = field(default_factory=SplitOptions)
    saved: SavedBefore | None = None

    @property
    def where(self) -> tuple[tuple[str, ...], int]:
        """By which the trainer's operators find its link."""
        return self.layout.servers, self.trainer

    def program(self, endpoint: str) -> Program:
        """What the server at `endpoint` runs. EnforceNotMet where it is none of the servers."""
        made = server_program(self.side, self._number(endpoint), endpoint)
        made._saved_before = self.saved
        return made

    def startup(self, endpoint: str) -> Program:
        """What the server at `endpoint` runs first."""
        made = server_startup(self.side, self._number(endpoint))
        made._saved_before = self.saved
        return made

    def _number(self, endpoint: str) -> int:
        if endpoint not in self.layout.servers:
            raise EnforceNotMet(f"{endpoint} is none of the servers {self.layout.servers}")
        return self.layout.servers.index(endpoint)


def split(
    main: Program,
    startup: Program,
    servers: Sequence[str],
    trainers: int,
    trainer: int,
    mode: TrainingMode,
    options: SplitOptions,
) -> Split:
    """Rewrites both programs, in place, to those of one trainer; what servers run besides.

    Warns where the program has no updates. Raises EnforceNotMet where servers can't make one.
    """
    former = ServerSide(main.clone(), startup.clone(), _NOTHING, {})
    dense, tables = _sorted(former.main, former.startup)
    if not dense and not tables:
        _LOGGER.warning(
            "the program updates no parameters, so servers have nothing to keep: call the "
            "optimizer's minimize before it is transpiled for servers"
        )
    if mode != TrainingMode.GEO:
        _require_sparse(former.main, [one.param.name for one in tables])
    layout = JobLayout(
        tuple(servers),
        trainers,
        mode,
        _slices(dense, len(servers), options),
        tuple(_table(one, former) for one in tables),
    )
    known = {one.param.name: one for one in (*dense, *tables)}
    for name in sorted({one.param.name for one in dense} & lookups_of(former.main).keys()):
        _LOGGER.warning(_WHOLE, name)
    _warn_of_changes(former.main, known)
    own_dense, own_tables = _sorted(main, startup)
    side = TrainerSide(trainer, layout, [*own_dense, *own_tables], options.any_ids)
    rewrite_main(main, side)
    rewrite_startup(startup, side)
    is_sgd = all(one.op.type == "sgd" for one in known.values())
    held = ServerSide(former.main, former.startup, layout, known)
    return Split(trainer, layout, held, is_sgd, options, SavedBefore(held))


def _require_sparse(main: Program, tables: Sequence[str]) -> None:
    """EnforceNotMet where a table's gradient would not be rows."""
    for name in tables:
        for op in lookups_of(main)[name]:
            if not op.attr("is_sparse"):
                raise EnforceNotMet(
                    f"an embedding of {name} says is_distributed=True without is_sparse=True: "
                    "servers take rows for the gradient of a table, so say is_sparse=True too. It "
                    f"was made here:\n{op.made_at}"
                )


def _warn_of_changes(main: Program, known: Mapping[str, ParameterUpdate]) -> None:
    """Names what else changes a parameter: trainers do, and the servers' value takes its place."""
    moved = {id(op) for update in known.values() for op in update.ops}
    changed: dict[str, list[str]] = {}
    for op in (op for block in main.blocks for op in block.ops if id(op) not in moved):
        for name in known.keys() & _changed_by(op):
            changed.setdefault(op.title, []).append(name)
    for title, names in changed.items():
        _LOGGER.warning(
            "operator %s changes %s in the trainer alone: servers, which have the parameters, "
            "don't learn of it, so training differs from that of one process",
            title,
            ", ".join(sorted(names)),
        )


def _changed_by(op: Operator) -> set[str]:
    """The variables that it writes, without an input that it hands on as it is."""
    views = facts_of(op.type).views
    return {
        name
        for slot, names in op.outputs.items()
        for name in names
        if slot not in views or name not in op.input(views[slot])
    }


# What `sparse_embedding` calls tables on disk.
_ON_DISK = "SSDSparseTable"
_NOTHING = JobLayout((), 0, TrainingMode.SYNC, (), ())


_WHOLE = (
    "%s is looked up in with is_sparse=True, but servers keep it as a dense parameter: it is sent "
    "as a whole in each step, and the optimizer moves all its rows. A table of rows needs an "
    "initializer that gives each row by itself (not NumpyArrayInitializer), no other use than "
    "embedding, and another optimizer than Lamb, LARS and Dpsgd"
)


def _sorted(main: Program, startup: Program) -> tuple[list[ParameterUpdate], list[ParameterUpdate]]:
    """Updates of dense parameters, and of tables."""
    dense, tables = [], []
    for update in updates_of(main):
        name = update.param.name
        table = as_table(update, main, draws_of(initial_op(startup, name), name))
        asked = any(op.attr("is_distributed") for op in lookups_of(main).get(name, []))
        if table is None and asked:
            raise EnforceNotMet(
                f"{name} is to be distributed, so it needs an initializer that gives each row by "
                "itself (constant, uniform, normal, truncated normal, Xavier, MSRA), float32 or "
                "float64, no other use than embedding, and another optimizer than Lamb, LARS and "
                "Dpsgd"
            )
        if table is None:
            dense.append(update)
        else:
            tables.append(table)
    return dense, tables


def _slices(
    updates: Sequence[ParameterUpdate], servers: int, options: SplitOptions
) -> tuple[DenseParameter, ...]:
    deal = options.deal or in_turn(servers)
    found = []
    for update in updates:
        param = update.param
        most = servers if options.cut and update.is_divisible else 1
        ranges = row_ranges(param.shape, most, options.least)
        one = len(ranges) == 1
        names = [param.name if one else f"{param.name}.block{i}" for i in range(len(ranges))]
        parts = zip(names, ranges, deal(names), strict=True)
        slices = tuple(DenseSlice(name, *rows, server) for name, rows, server in parts)
        kind = str(to_torch(param.dtype)).removeprefix("torch.")
        found.append(DenseParameter(param.name, update.gradient, param.shape, kind, slices))
    return tuple(found)


def _table(update: ParameterUpdate, side: ServerSide) -> SparseParameter:
    param = update.param
    draws = draws_of(initial_op(side.startup, param.name), param.name)
    assert draws is not None
    kind = str(to_torch(param.dtype)).removeprefix("torch.")
    height, width = param.shape
    lookups = lookups_of(side.main).get(param.name, [])
    entries = {op.attr("entry") or "none" for op in lookups}
    if len(entries) > 1:
        raise EnforceNotMet(f"lookups of {param.name} have several entries: {sorted(entries)}")
    entry = entries.pop()
    read_entry(entry, param.name)
    on_disk = any(op.attr("table_class") == _ON_DISK for op in lookups)
    known = param.name, update.gradient, height, width, kind, draws
    return SparseParameter(*known, entry=entry, on_disk=on_disk)
