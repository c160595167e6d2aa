"""`refluid launch`: a script in several processes, on this host or on several."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

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
_Nodes = Annotated[
    int,
    typer.Option("--nodes", min=1, help="How many hosts, where an engine chooses them."),
]
_On = Annotated[
    Literal["ray"] | None,
    typer.Option("--on", help="Who places the trainers on hosts; else they run on this one."),
]
_Address = Annotated[
    str | None,
    typer.Option("--address", help="With --on ray: the cluster's; else one on this machine."),
]
_Placement = Annotated[
    Literal["spread", "packed"],
    typer.Option("--placement", help="With --on ray: over many hosts, or into few."),
]
_Manifest = Annotated[
    Literal["k8s", "slurm"] | None,
    typer.Option("--print-manifest", help="Print what starts the job there; run nothing."),
]
_Image = Annotated[
    str, typer.Option("--image", help="With --print-manifest k8s: what the pods run.")
]
_Place = Annotated[
    Literal["cpu"] | None,
    typer.Option("--place", help="Run there, whatever places the script names."),
]
_StrategyFile = Annotated[
    Path | None,
    typer.Option("--strategy", metavar="FILE.toml", help="Settings in place of the script's."),
]
_Servers = Annotated[
    str | None, typer.Option("--servers", help="Servers of tables, host:port,.. on all hosts.")
]
_Workers = Annotated[
    str | None, typer.Option("--workers", help="Their workers, host:port,.. on all hosts.")
]
_ServerCount = Annotated[
    int | None, typer.Option("--server_num", min=1, help="Servers of tables on each host.")
]
_WorkerCount = Annotated[
    int | None, typer.Option("--worker_num", min=1, help="Workers beside servers on each host.")
]
_Join = Annotated[
    str | None,
    typer.Option("--join", help="One server of tables more, of the job of the one at host:port."),
]

_LOGS = Path("log")


def launch(
    script: _Script,
    arguments: _Arguments = None,
    nproc_per_node: _Count = None,
    gpus: _Gpus = None,
    ips: _Hosts = "127.0.0.1",
    node_ip: _Host = None,
    started_port: _Port = None,
    log_dir: _Folder = _LOGS,
    print_config: _Print = True,
    max_restarts: _Restarts = 0,
    place: _Place = None,
    nodes: _Nodes = 1,
    on: _On = None,
    address: _Address = None,
    placement: _Placement = "spread",
    print_manifest: _Manifest = None,
    image: _Image = "refluid",
    server_num: _ServerCount = None,
    worker_num: _WorkerCount = None,
    servers: _Servers = None,
    workers: _Workers = None,
    join: _Join = None,
    strategy: _StrategyFile = None,
) -> None:
    """Run a script as several trainers, which find Fluid's PADDLE_* environment.

    On several hosts start the same command on each, or have an engine do so: --on ray, or what
    --print-manifest prints. The first trainer's output is shown; each has a log. Where one fails,
    all end, and its last lines are shown. Servers of tables end when their workers did.
    """
    command, options = [script, *(arguments or [])], _given(place=place, strategy=strategy)
    devices, port = len([one for one in (gpus or "").split(",") if one.strip()]), started_port
    count, parts = nproc_per_node or devices or 1, (server_num, worker_num, servers, workers)
    with _refusing():
        if print_manifest:
            options += _shown(log_dir, print_config) + _given(gpus=gpus, max_restarts=max_restarts)
            served = _given(server_num=server_num, worker_num=worker_num)
            _print(print_manifest, command, nodes, count, port, options, devices, image, served)
            return
        how, kept = [*options, *command], (log_dir, max_restarts)
        if join or (any(parts) and not on):
            status = _with_servers(how, parts, node_ip, port, *kept, ips.split(","), join)
        elif on:
            trainers, tables = nodes * (worker_num or count), nodes * (server_num or 0)
            status = _on_ray(how, trainers, placement, address, devices, *kept, tables)
        else:
            where = ips, node_ip, port, nproc_per_node, gpus
            status = _here(command, *where, log_dir, print_config, max_restarts, options)
    raise SystemExit(status)


@contextmanager
def _refusing() -> Iterator[None]:
    """Says what can't be, and ends, where that is found out within the block."""
    from refluid.cli.console import refuse
    from refluid.core.errors import EnforceNotMet

    try:
        yield
    except EnforceNotMet as error:
        refuse(str(error))


def _shown(folder: Path, prints: bool) -> list[str]:
    """Options of what is shown and kept, where they aren't the usual ones."""
    return _given(log_dir=folder if folder != _LOGS else None) + ["--quiet"] * (not prints)


def _given(**options: str | int | Path | None) -> list[str]:
    given = ([f"--{name}", str(value)] for name, value in options.items() if value)
    return list(itertools.chain.from_iterable(given))


def _here(
    command: list[str],
    ips: str,
    host: str | None,
    port: int | None,
    count: int | None,
    gpus: str | None,
    folder: Path,
    prints: bool,
    restarts: int,
    options: list[str],
) -> int:
    from refluid.collective.launch.job import launched

    return launched(
        command,
        hosts=ips.split(","),
        host=host,
        port=port,
        count=count,
        gpus=gpus,
        folder=folder,
        prints=prints,
        max_restarts=restarts,
        options=options,
    )


def _on_ray(
    arguments: list[str],
    size: int,
    placement: str,
    address: str | None,
    devices: int,
    folder: Path,
    restarts: int,
    servers: int,
) -> int:
    from refluid.collective.launch.on_ray import run_on_ray
    from refluid.collective.launch.ray_job import RayJob

    job = RayJob(arguments, size, placement, address, gpus=1 if devices else 0, servers=servers)
    return run_on_ray(job, folder, restarts)


def _print(
    kind: str,
    command: list[str],
    hosts: int,
    count: int,
    port: int | None,
    options: list[str],
    gpus: int,
    image: str,
    served: list[str],
) -> None:
    from refluid.collective.launch.job import USUAL_PORT
    from refluid.collective.launch.manifests import EngineJob, manifest

    begin = port or USUAL_PORT
    wanted = EngineJob(command, hosts, count, begin, options, gpus, image, served)
    typer.echo(manifest(kind, wanted), nl=False)


def _with_servers(
    command: list[str],
    parts: tuple[Any, ...],
    host: str | None,
    port: int | None,
    folder: Path,
    restarts: int,
    hosts: list[str],
    join: str | None,
) -> int:
    from refluid.collective.launch.job import launched_with_servers

    if join is not None:
        return _joining(command, join, host, port, folder, restarts)
    where = host, port, folder, restarts, hosts
    return launched_with_servers(command, parts[:2], parts[2:], *where)


def _joining(
    command: list[str], at: str, host: str | None, port: int | None, folder: Path, restarts: int
) -> int:
    from refluid.collective.launch.joining_servers import run_joining
    from refluid.core.ports import free_port

    address = f"{host or '127.0.0.1'}:{port or free_port()}"
    return run_joining(command, at, address, folder, restarts)
