"""`refluid certs`: certificates with which servers of tables and trainers know each other."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

_Folder = Annotated[Path, typer.Argument(help="Where they are written.")]
_Hosts = Annotated[
    str, typer.Option("--hosts", help="Names or addresses of the job's hosts: a,b,..")
]
_Name = Annotated[
    str, typer.Option("--name", help="What the files are called, as one set for each host.")
]
_Days = Annotated[int, typer.Option("--days", min=1, help="For how long they are good.")]


def certs(folder: _Folder, hosts: _Hosts = "", name: _Name = "job", days: _Days = 365) -> None:
    """Make a test authority and a certificate for a job's hosts, and print what to export.

    Loopback is always among the hosts. Called again with another name, the same authority signs
    more. The authority's key stays with you: servers and trainers don't need it.
    """
    from refluid.cli.console import refuse
    from refluid.core.errors import EnforceNotMet
    from refluid.pserver.certificates import make_certificates

    named = [one.strip() for one in hosts.split(",") if one.strip()]
    try:
        made = make_certificates(folder, named, name, days)
    except EnforceNotMet as error:
        refuse(str(error))
    for variable, value in made.environment.items():
        typer.echo(f"export {variable}={shlex.quote(value)}")
