"""Files by which other engines start a job: an indexed job of Kubernetes, a script of SLURM."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from refluid.core.errors import EnforceNotMet


@dataclass(frozen=True)
class EngineJob:
    """A job of `count` processes on each of so many hosts.

    command: the script and its arguments. options: of `refluid launch`. gpus: of each host. port:
    of the first process of each host. image: what Kubernetes runs. served: options that say how
    many servers and workers each host has, in the place of `count`.
    """

    command: Sequence[str]
    hosts: int
    count: int
    port: int
    options: Sequence[str] = ()
    gpus: int = 0
    image: str = "refluid"
    served: Sequence[str] = ()

    @property
    def name(self) -> str:
        """Of the job: that of the script, as Kubernetes allows it."""
        plain = re.sub(r"[^a-z0-9]+", "-", Path(self.command[0]).stem.lower()).strip("-")
        return plain or "refluid"

    def launch(self, hosts: str, host: str) -> str:
        """What each host runs, as a shell reads it; hosts, host: as a shell has them."""
        processes = self.served or ["-n", str(self.count)]
        options = [*processes, "--started_port", str(self.port), *self.options]
        said = [*(shlex.quote(one) for one in options), "--ips", hosts, "--node_ip", host]
        return " ".join(["refluid launch", *said, *(shlex.quote(one) for one in self.command)])


def manifest(kind: str, wanted: EngineJob) -> str:
    """The file for `k8s` or `slurm`; EnforceNotMet for another kind."""
    if kind not in KINDS:
        raise EnforceNotMet(f"there is no manifest for {kind!r}, but for {', '.join(KINDS)}")
    return KINDS[kind](wanted)


def _slurm(wanted: EngineJob) -> str:
    launch = wanted.launch('"$0"', '"$SLURMD_NODENAME"')
    gpus = f"#SBATCH --gpus-per-node={wanted.gpus}\n" if wanted.gpus else ""
    keys = _SLURM_KEYS if wanted.served else ""
    return f"""#!/bin/bash
#SBATCH --job-name={wanted.name}
#SBATCH --nodes={wanted.hosts}
#SBATCH --ntasks-per-node=1
{gpus}{keys}hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | paste -sd, -)
srun --kill-on-bad-exit=1 bash -c {shlex.quote(launch)} "$hosts"
"""


def _k8s(wanted: EngineJob) -> str:
    name = wanted.name
    hosts = ",".join(f"{name}-{index}.{name}" for index in range(wanted.hosts))
    launch = wanted.launch(hosts, f'"{name}-$JOB_COMPLETION_INDEX.{name}"')
    limits = f"\n          limits: {{nvidia.com/gpu: {wanted.gpus}}}" if wanted.gpus else " {}"
    quoted = launch.replace("\\", "\\\\").replace('"', '\\"')
    about, mounted, volume = _keys_of_pods(name, hosts) if wanted.served else ("", "", "")
    return f"""{about}apiVersion: v1
kind: Service
metadata:
  name: {name}
spec:
  clusterIP: None
  publishNotReadyAddresses: true
  selector:
    job-name: {name}
---
apiVersion: batch/v1
kind: Job
metadata:
  name: {name}
spec:
  completionMode: Indexed
  completions: {wanted.hosts}
  parallelism: {wanted.hosts}
  backoffLimit: 0
  template:
    spec:
      restartPolicy: Never
      subdomain: {name}
      containers:
      - name: trainers
        image: {wanted.image}
        command: ["bash", "-c", "{quoted}"]
        ports:
        - containerPort: {wanted.port}
        resources:{limits}
{mounted}{volume}"""


# Servers of tables let nobody in without a certificate.
_SLURM_KEYS = """# Once: refluid certs certs --hosts NAMES, on a file system that all hosts see.
export REFLUID_TLS_KEY="$PWD/certs/job.key" REFLUID_TLS_CERTIFICATE="$PWD/certs/job.pem"
export REFLUID_TLS_AUTHORITY="$PWD/certs/authority.pem"
"""


def _keys_of_pods(name: str, hosts: str) -> tuple[str, str, str]:
    """What to do once, what containers are given, and from where."""
    files = " ".join(f"--from-file=certs/{one}" for one in ("job.key", "job.pem", "authority.pem"))
    about = f"""# Once: refluid certs certs --hosts {hosts}
#       kubectl create secret generic {name}-keys {files}
"""
    named = {"KEY": "job.key", "CERTIFICATE": "job.pem", "AUTHORITY": "authority.pem"}
    told = "".join(
        f"        - {{name: REFLUID_TLS_{one}, value: /keys/{file}}}\n"
        for one, file in named.items()
    )
    mounted = f"""        env:
{told}        volumeMounts:
        - {{name: keys, mountPath: /keys, readOnly: true}}
"""
    volume = f"""      volumes:
      - name: keys
        secret: {{secretName: {name}-keys, defaultMode: 256}}
"""
    return about, mounted, volume


KINDS: Mapping[str, Callable[[EngineJob], str]] = {"k8s": _k8s, "slurm": _slurm}
