"""`refluid tables`: what the servers of a job hold now, without being one of its trainers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from refluid.pserver.reading import TableReader

_Address = Annotated[
    str, typer.Argument(help="host:port of one of the job's servers, or a folder of saved tables.")
]
_TableName = Annotated[str | None, typer.Argument(help="A table, of which rows are printed.")]
_Ids = Annotated[list[int] | None, typer.Argument(help="Their ids.")]
_Model = Annotated[
    Path | None,
    typer.Option("--model", help="Folder of a saved model, which predicts by the tables."),
]
_Feed = Annotated[
    Path | None, typer.Option("--feed", help="An .npz file with an array for each of its inputs.")
]


def tables(
    server: _Address,
    table: _TableName = None,
    ids: _Ids = None,
    model: _Model = None,
    feed: _Feed = None,
) -> None:
    """Print what servers of tables hold: a summary, rows of a table, or what a model predicts.

    Of a folder that `fleet.save_model` wrote a summary, or rows that it has.

    Training goes on meanwhile and isn't changed. With mutual TLS the environment names this
    reader's certificate as it does a trainer's.
    """
    from refluid.cli.console import refuse, results
    from refluid.core.errors import EnforceNotMet
    from refluid.pserver.reading import TableReader

    if (model is None) != (feed is None):
        refuse("--model says what predicts and --feed of what: give both")
    try:
        if Path(server).is_dir():
            _saved(Path(server), table, ids or [])
            return
        with TableReader([server]) as reader:
            if model is not None and feed is not None:
                _predict(reader, model, feed)
            elif table is not None:
                for number, row in zip(ids or [], reader.rows(table, ids or []), strict=True):
                    typer.echo(f"{number}: {' '.join(f'{one:g}' for one in row)}")
            else:
                results().print(_summary(reader))
    except EnforceNotMet as error:
        refuse(str(error))


def _saved(folder: Path, table: str | None, ids: list[int]) -> None:
    """Prints what shards of a folder hold, or rows of a table."""
    from rich.table import Table

    from refluid.cli.console import results
    from refluid.pserver.saved_files import ShardedTables

    saved = ShardedTables(folder)
    if table is not None:
        for number, row in saved.rows_of(table, ids):
            typer.echo(f"{number}: {' '.join(f'{one:g}' for one in row)}")
        return
    shown = Table("table", "height", "rows", "variables", "files", box=None)
    for name, told in saved.tables.items():
        rows = sum(len(found) for found, _ in saved.rows([name], 0))
        kept = ", ".join(told["draws"])
        files = str(len(saved.tensors.files))
        shown.add_row(name, f"{told['height']:,}", f"{rows:,}", kept, files)
    results().print(shown)


def _summary(reader: TableReader) -> Any:
    from rich.table import Table

    shown = Table("server", "tables", "rows", "bytes", "pushes", "trainers there", box=None)
    there = [reader.layout.servers[number] for number in reader.layout.numbers]
    for address, one in zip(there, reader.state(), strict=True):
        rows, size = sum(one["rows"].values()), sum(one["bytes"].values())
        names = ", ".join(one["rows"])
        trainers = ", ".join(map(str, one["trainers"]))
        shown.add_row(address, names, f"{rows:,}", f"{size:,}", f"{one['pushes']:,}", trainers)
    return shown


def _predict(reader: TableReader, model: Path, feed: Path) -> None:
    """Prints each output of a saved model, as NumPy prints arrays."""
    import numpy as np

    from refluid.cli.inspect import load_program
    from refluid.core.scope import Scope
    from refluid.fluid.executor import Executor

    program = load_program(model)
    inputs = [op.output("Out")[0] for op in program.global_block().ops if op.type == "feed"]
    outputs = [op.input("X")[0] for op in program.global_block().ops if op.type == "fetch"]
    with np.load(feed) as file:
        given: Mapping[str, Any] = {name: file[name] for name in inputs if name in file}
    scope = Scope()
    connected = reader.connected(program)
    reader.refresh(connected, scope)
    found = Executor().run(connected, feed=given, fetch_list=outputs, scope=scope)
    for name, value in zip(outputs, found, strict=True):
        typer.echo(f"{name}:\n{value}")
