"""`refluid launch`: a script in several processes, on this host or on several."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_Script = Annotated[str, typer.Argument(help="A Python file.")]
_Arguments = Annotated[
    list[str] | None, typer.Argument(metavar="[ARGS]...", help="Passed on to the script.")
]
_Count = Annotated[
    int | None,
    typer.Option("--nproc_per_node", "-n", min=1, help="Processes on each host."),
]
_Gpus = Annotated[
    str | None,
    typer.Option("--gpus", "--selected_gpus", help="Devices, a process for each: 0,1,.."),
]
_Hosts = Annotated[
    str, typer.Option("--ips", "--cluster_node_ips", help="The hosts in order: a,b,..")
]
_Host = Annotated[
    str | None, typer.Option("--node_ip", help="Which of the hosts this is; else it finds out.")
]
_Port = Annotated[
    int | None,
    typer.Option("--started_port", help="The first trainer's port; the next have the next."),
]
_Folder = Annotated[Path, typer.Option("--log_dir", help="Where each trainer's log is written.")]
_Print = Annotated[bool, typer.Option("--print_config/--quiet", help="Print the environment.")]
_Restarts = Annotated[
    int, typer.Option("--max_restarts", min=0, help="How often all begin again after a failure.")
]
_Place = Annotated[
    Literal["cpu"] | None,
    typer.Option("--place", help="Run there, whatever places the script names."),
]


def launch(
    script: _Script,
    arguments: _Arguments = None,
    nproc_per_node: _Count = None,
    gpus: _Gpus = None,
    ips: _Hosts = "127.0.0.1",
    node_ip: _Host = None,
    started_port: _Port = None,
    log_dir: _Folder = Path("log"),
    print_config: _Print = True,
    max_restarts: _Restarts = 0,
    place: _Place = None,
) -> None:
    """Run a script as several trainers, which find Fluid's PADDLE_* environment.

    On several hosts start the same command on each. The first trainer's output is shown; each
    has a log. Where one fails, all end, and its last lines are shown.
    """
    from refluid.cli.console import refuse
    from refluid.collective.launch.job import launched
    from refluid.core.errors import EnforceNotMet

    try:
        status = launched(
            [script, *(arguments or [])],
            hosts=ips.split(","),
            host=node_ip,
            port=started_port,
            count=nproc_per_node,
            gpus=gpus,
            folder=log_dir,
            prints=print_config,
            max_restarts=max_restarts,
            options=["--place", place] if place else [],
        )
    except EnforceNotMet as error:
        refuse(str(error))
    raise SystemExit(status)
