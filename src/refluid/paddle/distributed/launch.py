"""`python -m paddle.distributed.launch train.py`: runs a script as trainer 0 of 1.

Several processes are still to come. The script finds Fluid's `PADDLE_*` environment.
"""

from __future__ import annotations

import runpy
import sys
from argparse import REMAINDER, ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path

from refluid.core import flags
from refluid.paddle import beside

_SEVERAL = (
    "paddle.distributed.launch: {asked} would be {count} processes; so far refluid runs one. "
    "Several devices in one process work: "
    "fluid.CompiledProgram(program).with_data_parallel(loss_name=loss.name), on the CPU with "
    "CPU_NUM={count}"
)


def parse_args(arguments: Sequence[str] | None = None) -> Namespace:
    """Fluid 1.8's options, and `--gpus`, `--ips` and `--nproc_per_node` of those that followed."""
    parser = ArgumentParser(
        prog="python -m paddle.distributed.launch",
        description="Run a training script as Fluid's launcher does: in one process so far.",
    )
    parser.add_argument("--cluster_node_ips", "--ips", default="127.0.0.1", help="hosts: a,b,..")
    parser.add_argument("--node_ip", default="127.0.0.1", help="this host")
    parser.add_argument("--use_paddlecloud", action="store_true", help="takes no effect")
    parser.add_argument("--started_port", type=int, default=6170, help="this trainer's port")
    parser.add_argument("--print_config", type=_truth, default=True, help="print the environment")
    parser.add_argument("--selected_gpus", "--gpus", help="devices, a process for each: 0,1,..")
    parser.add_argument("--nproc_per_node", type=int, help="processes on this host")
    parser.add_argument("--log_level", type=int, default=20, help="20 prints, 30 is quiet")
    parser.add_argument("--log_dir", help="takes no effect: one process prints where you see it")
    parser.add_argument("training_script", help="the script")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="passed on to it")
    return parser.parse_args(arguments)


def _truth(text: str) -> bool:
    return text.lower() in ("1", "true", "t", "yes", "y")


def _check_single(options: Namespace) -> None:
    """Ends with a message where more than one process is asked for."""
    devices = (options.selected_gpus or "0").split(",")
    hosts = options.cluster_node_ips.split(",")
    counts = {
        f"--selected_gpus {options.selected_gpus}": len(devices),
        f"--nproc_per_node {options.nproc_per_node}": options.nproc_per_node or 1,
        f"--cluster_node_ips {options.cluster_node_ips}": len(hosts),
    }
    for asked, count in counts.items():
        if count != 1:
            raise SystemExit(_SEVERAL.format(asked=asked, count=count))


def _environment(options: Namespace) -> dict[str, str]:
    endpoint = f"{options.node_ip}:{options.started_port}"
    found = {
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_CURRENT_ENDPOINT": endpoint,
        "PADDLE_TRAINER_ENDPOINTS": endpoint,
    }
    if options.selected_gpus is not None:
        found["FLAGS_selected_gpus"] = options.selected_gpus
    return found


def launch(args: Sequence[str] | None = None) -> None:
    """Runs the script as `__main__` of this process, in the environment of a single trainer."""
    options = parse_args(args)
    _check_single(options)
    environment = _environment(options)
    for name, value in environment.items():
        flags.export(name, value)
    flags.load_environment(environment)
    if options.print_config and options.log_level <= 20:
        print("\n".join(f"{name}: {value}" for name, value in environment.items()), flush=True)
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
