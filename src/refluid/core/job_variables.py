"""Which trainer of a job this process is, by Fluid's variables of the environment.

Where a process has none of them, what torchrun or SLURM's `srun` says is put in their words.
"""

from __future__ import annotations

import re

import torch

from refluid.core import flags
from refluid.core.flags import environment_int, environment_str

# Where one of these is set, the environment speaks of Fluid's jobs by itself.
_OWN = (
    "PADDLE_TRAINER_ID",
    "PADDLE_TRAINERS_NUM",
    "PADDLE_TRAINER_ENDPOINTS",
    "PADDLE_PSERVERS_IP_PORT_LIST",
)
_DEVICES = "FLAGS_selected_gpus"


def job_str(name: str) -> str | None:
    """One of Fluid's variables of trainers, or what stands for it; None where nothing does."""
    return environment_str(name) or _put_in_words().get(name)


def job_int(name: str, default: int) -> int:
    """The same as a whole number; `default` where there is none. ValueError for other text."""
    found = environment_int(name, None)
    return int(_put_in_words().get(name, default)) if found is None else found


def export_job() -> None:
    """Sets Fluid's variables as torchrun or SLURM would have them, for scripts that read them."""
    found = _put_in_words()
    for name, value in found.items():
        flags.export(name, value)
    flags.load_environment(found)


def _put_in_words() -> dict[str, str]:
    """Fluid's variables by those of torchrun or SLURM; none where Fluid's are set."""
    if any(environment_str(name) for name in _OWN):
        return {}
    return _of_torchrun() or _of_slurm()


def _of_torchrun() -> dict[str, str]:
    rank, size = environment_int("RANK", None), environment_int("WORLD_SIZE", None)
    host, port = environment_str("MASTER_ADDR"), environment_int("MASTER_PORT", None)
    if rank is None or size is None or host is None or port is None:
        return {}
    # torchrun's own store listens at that port.
    return _numbered(rank, size, host, port + 1) | _device(environment_int("LOCAL_RANK", None))


def _of_slurm() -> dict[str, str]:
    """Of a step of `srun`; a batch script by itself has no nodes of a step."""
    rank, job = environment_int("SLURM_PROCID", None), environment_int("SLURM_JOB_ID", None)
    size = environment_int("SLURM_STEP_NUM_TASKS", environment_int("SLURM_NTASKS", None))
    nodes = environment_str("SLURM_STEP_NODELIST")
    host = first_of_nodes(nodes) if nodes else environment_str("SLURM_LAUNCH_NODE_IPADDR")
    if rank is None or size is None or host is None or job is None:
        return {}
    port = 20000 + job % 20000
    return _numbered(rank, size, host, port) | _device(environment_int("SLURM_LOCALID", None))


def first_of_nodes(nodes: str) -> str:
    """The first host, where SLURM's first task runs: `rack[07-09,12]n1,login` -> `rack07n1`."""
    found = re.match(r"(?:[^,\[]|\[[^\]]*\])+", nodes.strip())
    return re.sub(r"\[(\d+)[^\]]*\]", r"\1", found[0] if found else nodes)


def _numbered(rank: int, size: int, host: str, port: int) -> dict[str, str]:
    """Trainers of whom only the first listens; the others' endpoints only name them."""
    endpoints = [f"{host}:{port}", *(f"trainer-{one}:{port}" for one in range(1, size))]
    return {
        "PADDLE_TRAINER_ID": str(rank),
        "PADDLE_TRAINERS_NUM": str(size),
        "PADDLE_TRAINER_ENDPOINTS": ",".join(endpoints),
        "PADDLE_CURRENT_ENDPOINT": endpoints[rank] if 0 <= rank < size else "",
    }


def _device(local_rank: int | None) -> dict[str, str]:
    """The GPU of a process, of those that it sees."""
    count = torch.cuda.device_count()
    if local_rank is None or not count or environment_str(_DEVICES):
        return {}
    return {_DEVICES: str(local_rank % count)}
