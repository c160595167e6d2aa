"""`python -m paddle.distributed.launch_ps --server_num 2 --worker_num 2 train.py`: with servers."""

from __future__ import annotations

from argparse import REMAINDER, ArgumentParser, Namespace

from refluid.paddle.distributed.launch import launch_with_servers

__all__ = ["launch", "parse_args", "start_procs"]


def parse_args() -> Namespace:
    """Fluid 1.8's options, of the command line."""
    parser = ArgumentParser(
        prog="python -m paddle.distributed.launch_ps",
        description="Run a training script as servers of tables and workers.",
    )
    parser.add_argument("--cluster_node_ips", default="", help="hosts: a,b,..")
    parser.add_argument("--node_ip", help="this host, of those in the lists")
    parser.add_argument("--start_port", "--started_port", type=int, help="the first server's port")
    parser.add_argument("--print_config", default=True, help="takes no effect")
    parser.add_argument("--endpoints", "--servers", default="", help="of servers: host:port,..")
    parser.add_argument("--workers", default="", help="of workers, on all hosts: host:port,..")
    parser.add_argument("--worker_num", type=int, default=2, help="workers on this host")
    parser.add_argument("--server_num", type=int, default=2, help="servers on this host")
    parser.add_argument("--log_dir", default="logs", help="where each process writes its log")
    parser.add_argument("--max_restarts", type=int, default=0, help="of a server that failed")
    parser.add_argument("training_script", help="the script")
    parser.add_argument("training_script_args", nargs=REMAINDER, help="passed on to it")
    return parser.parse_args()


def start_procs(args: Namespace) -> None:
    """Runs servers and workers as `parse_args` says; SystemExit where one failed."""
    told = {"servers": args.endpoints, "started_port": args.start_port}
    status = launch_with_servers(Namespace(**vars(args) | told))
    if status:
        raise SystemExit(status)


def launch() -> None:
    """What `python -m paddle.distributed.launch_ps` does."""
    start_procs(parse_args())


if __name__ == "__main__":
    launch()
