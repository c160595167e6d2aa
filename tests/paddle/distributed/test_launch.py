"""The launcher runs a script as the only trainer, or as several."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from refluid.paddle.distributed.launch import of_cloud, parse_args
from tests import started

SCRIPT = """
import json, os, sys
import beside_it
import paddle.fluid as fluid
print(json.dumps({
    "name": __name__, "argv": sys.argv, "file": __file__,
    "env": {k: v for k, v in os.environ.items() if k.startswith(("PADDLE_", "FLAGS_sel"))},
    "flag": fluid.get_flags("FLAGS_selected_gpus")["FLAGS_selected_gpus"],
    "one": float(fluid.Executor().run(fluid.Program()) == []),
}))
"""


def run(folder: Path, *arguments: str, start: str = "") -> subprocess.CompletedProcess[str]:
    (folder / "train.py").write_text(SCRIPT)
    (folder / "beside_it.py").touch()
    code = start or (
        "import refluid.paddle, runpy; refluid.paddle.install();"
        "runpy.run_module('paddle.distributed.launch', run_name='__main__', alter_sys=True)"
    )
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("PADDLE_", "FLAGS_"))}
    return started.run("-c", code, *arguments, folder=folder.parent, environment=environment)


def test_a_script_is_the_only_trainer(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    script = str(folder / "train.py")
    ran = run(folder, "--selected_gpus", "3", "--started_port=7000", script, "--lr", "0.1")
    assert ran.returncode == 0, ran.stderr
    *shown, said = ran.stdout.splitlines()
    assert shown[0].startswith("Local start 1 processes.")
    found = json.loads(said)
    assert found["name"] == "__main__" and found["argv"] == [script, "--lr", "0.1"]
    assert found["env"] == {
        "PADDLE_TRAINER_ID": "0",
        "PADDLE_TRAINERS_NUM": "1",
        "PADDLE_CURRENT_ENDPOINT": "127.0.0.1:7000",
        "PADDLE_TRAINER_ENDPOINTS": "127.0.0.1:7000",
        "FLAGS_selected_gpus": "3",
    }
    assert found["flag"] == "3" and any("127.0.0.1:7000" in line for line in shown)


@pytest.mark.slow
def test_several_trainers_run_in_processes_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    logs = tmp_path / "logs"
    script = str(tmp_path / "project/train.py")
    ran = run(tmp_path / "project", "--gpus=0,1", "--log_dir", str(logs), script, "--lr", "0.1")
    assert ran.returncode == 0, ran.stderr
    assert "Local start 2 processes" in ran.stdout
    own = [json.loads((logs / f"workerlog.{rank}").read_text().splitlines()[-1]) for rank in (0, 1)]
    assert [one["flag"] for one in own] == ["0", "1"]
    assert [one["env"]["PADDLE_TRAINER_ID"] for one in own] == ["0", "1"]
    assert all(one["argv"] == [script, "--lr", "0.1"] for one in own)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (["--ips=10.0.0.1,10.0.0.2"], "none of the hosts"),
        (["--gpus=0,1", "--nproc_per_node", "3"], "give a device for each"),
    ],
)
def test_what_cannot_be_is_said(tmp_path: Path, asked: list[str], said: str) -> None:
    ran = run(tmp_path, *asked, str(tmp_path / "train.py"))
    assert ran.returncode == 1 and not ran.stdout
    assert said in ran.stderr and "Traceback" not in ran.stderr


def test_a_missing_script(tmp_path: Path) -> None:
    ran = run(tmp_path, "none.py")
    assert ran.returncode == 1 and ran.stderr.strip().endswith("no such script: none.py")


def test_hosts_of_paddlecloud(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = run(tmp_path, "--use_paddlecloud", str(tmp_path / "train.py"))
    assert ran.returncode == 1 and "--use_paddlecloud needs PADDLE_TRAINERS" in ran.stderr
    told = {"PADDLE_TRAINERS": "10.0.0.1,10.0.0.2", "POD_IP": "10.0.0.2", "PADDLE_PORT": "7100"}
    for name, value in told.items():
        monkeypatch.setenv(name, value)
    options = parse_args(["--use_paddlecloud", "train.py"])
    of_cloud(options)
    assert (options.cluster_node_ips, options.node_ip) == ("10.0.0.1,10.0.0.2", "10.0.0.2")
    assert options.started_port == 7100


def test_later_spellings() -> None:
    options = parse_args(["--devices=0,1", "--host", "a", "--log_level", "ERROR", "train.py"])
    assert (options.selected_gpus, options.node_ip, options.log_level) == ("0,1", "a", 40)


def test_options_after_the_script_are_its_own() -> None:
    options = parse_args(["--gpus", "0", "--nproc_per_node", "1", "t.py", "--gpus", "1,2"])
    assert options.training_script_args == ["--gpus", "1,2"] and options.selected_gpus == "0"
