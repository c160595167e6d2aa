"""`refluid servers`: which servers a running job has; one of them goes."""

from __future__ import annotations

import secrets
from typing import Annotated, Any, Literal

import typer

_Address = Annotated[str, typer.Argument(help="host:port of one of the job's servers.")]
_What = Annotated[
    Literal["remove"] | None, typer.Argument(help="Take one out; else they are listed.")
]
_Who = Annotated[str | None, typer.Argument(help="Which: its number or host:port.")]
_Lost = Annotated[
    bool, typer.Option("--lost", help="It is gone: its rows come from its last checkpoint.")
]


def servers(server: _Address, what: _What = None, who: _Who = None, lost: _Lost = False) -> None:
    """List a job's servers, or take one out: only its rows move, and training goes on.

    `refluid launch --join HOST:PORT SCRIPT` starts one more. A server that is lost for good needs
    REFLUID_SERVER_CHECKPOINTS to be a folder that the others see; SERVER is then another one.
    """
    from refluid.cli.console import refuse, results
    from refluid.core.errors import EnforceNotMet
    from refluid.pserver.asking import ask_for_change, number_of
    from refluid.pserver.lookout import present_layout

    if (what is None) != (who is None):
        refuse("remove says which server, by its number or its host:port")
    try:
        if who is None:
            results().print(_list(server))
            return
        number = number_of(present_layout([server], 10.0), who)
        wish = {"remove": number, "lost": lost}
        found = ask_for_change([server], wish, secrets.randbits(62) | 1)
        typer.echo(
            f"server {number} is out: {found['moved']:,} of {found['rows']:,} rows moved "
            f"in {found['seconds']:.1f} s"
        )
    except EnforceNotMet as error:
        refuse(str(error))


def _list(server: str) -> Any:
    from rich.table import Table

    from refluid.pserver.reading import TableReader

    shown = Table("number", "server", "rows", "bytes", "slices", box=None)
    with TableReader([server]) as reader:
        states, layout = reader.state(), reader.layout
    parts = [part.server for one in layout.dense for part in one.slices]
    for number, one in zip(layout.numbers, states, strict=True):
        rows, size = sum(one["rows"].values()), sum(one["bytes"].values())
        slices = parts.count(number)
        shown.add_row(str(number), layout.servers[number], f"{rows:,}", f"{size:,}", str(slices))
    return shown
