"""What other engines are given to start a job."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from refluid.collective.launch.manifests import KINDS, EngineJob, manifest
from refluid.core.errors import EnforceNotMet
from refluid.core.ports import free_port

# SLURM's commands for two hosts, both on this machine.
SCONTROL = "#!/bin/bash\nprintf '127.0.0.1\\n127.0.0.2\\n'\n"
SRUN = """#!/bin/bash
shift
SLURMD_NODENAME=127.0.0.2 "$@" &
SLURMD_NODENAME=127.0.0.1 "$@"
wait $!
"""
SCRIPT = """
import os, sys
print(os.environ["PADDLE_TRAINER_ID"], os.environ["PADDLE_CURRENT_ENDPOINT"], sys.argv[1:])
"""


@pytest.mark.slow
def test_slurms_script_starts_the_job(tmp_path: Path) -> None:
    for name, text in (("scontrol", SCONTROL), ("srun", SRUN)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    refluid = f'#!/bin/bash\nexec {sys.executable} -m refluid.cli.main "$@"\n'
    (tmp_path / "refluid").write_text(refluid)
    (tmp_path / "refluid").chmod(0o755)
    (tmp_path / "train.py").write_text(SCRIPT)
    port = free_port(3)
    options = ["--log_dir", "log"]
    wanted = EngineJob(["train.py", "--name", "it's 'quoted'"], 2, 2, port, options)
    (tmp_path / "job.sh").write_text(manifest("slurm", wanted))
    path = os.pathsep.join(one for one in sys.path if one)
    found = subprocess.run(
        ["bash", "job.sh"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "PYTHONPATH": path,
            "SLURM_JOB_NODELIST": "a[1-2]",
            "OMP_NUM_THREADS": "1",
        },
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    for rank in range(4):
        host = f"127.0.0.{1 + rank // 2}:{port + rank % 2}"
        said = (tmp_path / "log" / f"workerlog.{rank}").read_text()
        assert said == f"{rank} {host} ['--name', \"it's 'quoted'\"]\n"


def test_kubernetes_gets_an_indexed_job() -> None:
    yaml = pytest.importorskip("yaml")
    wanted = EngineJob(["/code/Train_Net.py", "--lr", "a b"], 3, 8, 6170, ["--quiet"], 8, "mine:1")
    service, job = yaml.safe_load_all(manifest("k8s", wanted))
    assert service["kind"] == "Service" and service["spec"]["clusterIP"] == "None"
    assert service["spec"]["selector"] == {"job-name": job["metadata"]["name"]}
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["completions"] == job["spec"]["parallelism"] == 3
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["subdomain"] == service["metadata"]["name"] == "train-net"
    assert container["resources"]["limits"] == {"nvidia.com/gpu": 8}
    assert container["image"] == "mine:1" and container["command"][:2] == ["bash", "-c"]
    told = (
        f"refluid() {{ printf '%s\\n' \"$@\"; }}; JOB_COMPLETION_INDEX=2; {container['command'][2]}"
    )
    said = subprocess.run(["bash", "-c", told], capture_output=True, text=True, check=True).stdout
    hosts = ",".join(f"train-net-{index}.train-net" for index in range(3))
    assert said.splitlines() == [
        *("launch", "-n", "8", "--started_port", "6170", "--quiet", "--ips", hosts),
        *("--node_ip", "train-net-2.train-net", "/code/Train_Net.py", "--lr", "a b"),
    ]


def test_servers_get_their_keys() -> None:
    yaml = pytest.importorskip("yaml")
    served = ["--server_num", "1", "--worker_num", "2"]
    wanted = EngineJob(["/code/ctr.py"], 2, 1, 6170, ["--max_restarts", "3"], served=served)
    text = manifest("k8s", wanted)
    assert "# Once: refluid certs certs --hosts ctr-0.ctr,ctr-1.ctr\n" in text
    _, job = yaml.safe_load_all(text)
    pod = job["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    assert pod["volumes"][0]["secret"]["secretName"] == "ctr-keys"
    assert container["volumeMounts"][0]["mountPath"] == "/keys"
    named = {one["name"]: one["value"] for one in container["env"]}
    assert named["REFLUID_TLS_CERTIFICATE"] == "/keys/job.pem" and len(named) == 3
    launch = "refluid launch --server_num 1 --worker_num 2 --started_port 6170 --max_restarts 3"
    assert container["command"][2].startswith(f"{launch} --ips ctr-0.ctr,ctr-1.ctr --node_ip ")
    script = manifest("slurm", wanted)
    assert f'bash -c \'{launch} --ips "$0" --node_ip' in script and "REFLUID_TLS_KEY" in script
    assert subprocess.run(["bash", "-n"], input=script, text=True, check=True).returncode == 0


def test_what_there_is_no_manifest_for() -> None:
    assert sorted(KINDS) == ["k8s", "slurm"]
    with pytest.raises(EnforceNotMet, match="no manifest for 'pbs', but for k8s, slurm"):
        manifest("pbs", EngineJob(["a.py"], 1, 1, 1))
