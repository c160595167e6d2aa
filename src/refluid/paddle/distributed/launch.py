"""`python -m paddle.distributed.launch train.py`: runs a script as one or several trainers.

The script finds Fluid's `PADDLE_*` environment. A single trainer runs in this process; several are
those of `refluid launch`.
"""

from __future__ import annotations

import logging
import runpy
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from refluid.collective.launch import cluster
from refluid.core import flags
from refluid.core.flags import environment_int, environment_str
from refluid.paddle import beside

_PORT = 6170


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Fluid 1.8's options, and those that followed of which there is more than one spelling."""
    parser = ArgumentParser(
        prog="python -m paddle.distributed.launch",
        description="Run a training script in one or several processes, as Fluid's launcher does.",
    )
    parser.add_argument("--cluster_node_ips", "--ips", default="127.0.0.1", help="hosts: a,b,..")
    parser.add_argument("--node_ip", "--host", help="this host")
    parser.add_argument(
        "--use_paddlecloud", action="store_true", help="PADDLE_TRAINERS, POD_IP say which hosts"
    )
    parser.add_argument("--started_port", "--start_port", type=int, help="the first trainer's port")
    parser.add_argument("--print_config", type=_truth, default=True, help="print the environment")
    parser.add_argument(
        "--selected_gpus", "--gpus", "--devices", help="devices, a process for each: 0,1,.."
    )
    parser.add_argument("--nproc_per_node", type=int, help="processes on this host")
    parser.add_argument("--log_level", type=_level, default=20, help="20 prints, 30 is quiet")
    parser.add_argument("--log_dir", help="where several trainers write their logs: log")
    parser.add_argument("--max_restarts", "--max_restart", type=int, default=0, help="failures")
    parser.add_argument("--run_mode", help="takes no effect: servers are asked for by number")
    parser.add_argument("--server_num", type=int, help="servers of tables on this host")
    parser.add_argument("--worker_num", "--trainer_num", type=int, help="workers beside servers")
    parser.add_argument("--servers", help="servers of tables on all hosts: host:port,..")
    parser.add_argument("--workers", "--trainers", help="their workers on all hosts: host:port,..")
    parser.add_argument("training_script", help="the script")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="passed on to it")
    return parser.parse_args(arguments)


def _level(text: str) -> int:
    """A level of the log, by its number or its name."""
    named = logging.getLevelNamesMapping()
    return int(text) if text.isdigit() else named[text.upper()]


def _truth(text: str) -> bool:
    return text.lower() in ("1", "true", "t", "yes", "y")


def of_cloud(options: Namespace) -> None:
    """The hosts are those of PaddleCloud's variables."""
    told = {name: environment_str(name) for name in ("PADDLE_TRAINERS", "POD_IP")}
    for name, value in told.items():
        if value is None:
            raise SystemExit(f"paddle.distributed.launch: --use_paddlecloud needs {name}")
    options.cluster_node_ips, options.node_ip = told.values()
    options.started_port = environment_int("PADDLE_PORT", options.started_port)


def _several(options: Namespace) -> bool:
    """Whether more than one process is asked for."""
    devices = (options.selected_gpus or "0").split(",")
    hosts = options.cluster_node_ips.split(",")
    return max(len(devices), len(hosts), options.nproc_per_node or 1) > 1


def _with_servers(options: Namespace) -> bool:
    """Whether servers of tables are asked for."""
    asked = options.server_num, options.worker_num, options.servers, options.workers
    return any(asked)


def launch_with_servers(options: Namespace) -> int:
    """Runs the script as servers of tables and workers; the exit status."""
    from refluid.collective.launch.job import launched_with_servers
    from refluid.core.errors import EnforceNotMet

    try:
        return launched_with_servers(
            [options.training_script, *options.training_script_args],
            (options.server_num, options.worker_num),
            (options.servers, options.workers),
            options.node_ip,
            options.started_port,
            Path(options.log_dir or "log"),
            options.max_restarts,
            options.cluster_node_ips.split(","),
        )
    except EnforceNotMet as error:
        raise SystemExit(f"paddle.distributed.launch: {error}") from None


def _launch_several(options: Namespace) -> int:
    from refluid.collective.launch.job import launched
    from refluid.core.errors import EnforceNotMet

    try:
        return launched(
            [options.training_script, *options.training_script_args],
            hosts=options.cluster_node_ips.split(","),
            host=options.node_ip,
            port=options.started_port,
            count=options.nproc_per_node,
            gpus=options.selected_gpus,
            folder=Path(options.log_dir or "log"),
            prints=options.print_config and options.log_level <= 20,
            max_restarts=options.max_restarts,
        )
    except EnforceNotMet as error:
        raise SystemExit(f"paddle.distributed.launch: {error}") from None


def launch(args: Sequence[str] | None = None) -> None:
    """Runs the script: a single trainer as `__main__` of this process, several in their own."""
    options = parse_args(args)
    if options.use_paddlecloud:
        of_cloud(options)
    if _with_servers(options):
        raise SystemExit(launch_with_servers(options))
    if _several(options):
        raise SystemExit(_launch_several(options))
    host = options.node_ip or options.cluster_node_ips
    port, gpus = options.started_port or _PORT, (options.selected_gpus or "",)
    alone = cluster.Cluster((host,), host, port, gpus)
    environment = alone.environment(0)
    for name, value in environment.items():
        flags.export(name, value)
    flags.load_environment(environment)
    if options.print_config and options.log_level <= 20:
        print(cluster.table(alone), flush=True)
    script = options.training_script
    if not Path(script).is_file():
        raise SystemExit(f"paddle.distributed.launch: no such script: {script}")
    sys.argv = [script, *options.training_script_args]
    folder = str(Path(script).resolve().parent)
    beside.set_aside(folder)
    sys.path.insert(0, folder)
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    launch()
